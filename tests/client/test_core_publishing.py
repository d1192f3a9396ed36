"""Lanes: batches that adapt, sequences, credit, confirmations, refusals, and sending again after a loss."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.dialogue import PRODUCER, QUEUE, TOPIC, Dialogue, bodies_of

from tocsin.client.batching import Batch, BatchKey
from tocsin.client.core_publishing import SEQUENCE_BITS, Lane
from tocsin.model import errors
from tocsin.model.batch import BodyKind, DeliveryMode
from tocsin.model.limits import CLIENT_BATCH_MESSAGES, CLIENT_WAITING_BYTES_MAX, PRODUCER_WINDOW_BATCHES
from tocsin.wire.frames import FrameType, control

KEY = BatchKey(BodyKind.BYTES, DeliveryMode.PERSISTENT, 4, 0, 0, True)
URGENT = KEY._replace(priority=9)


def opened(**reply: Any) -> tuple[Dialogue, Lane]:
    dialogue = Dialogue()
    dialogue.login()
    lane = dialogue.session().lane(QUEUE)
    dialogue.answer(producer_open=reply)
    return dialogue, lane


def put(lane: Lane, body: bytes, key: BatchKey = KEY) -> Batch:
    return lane.add(key, body, len(body), 1_000, None)[0]


def test_nothing_waits_on_an_idle_lane() -> None:
    dialogue, lane = opened()

    put(lane, b"one")

    (block,) = dialogue.published()
    assert bodies_of(block) == [b"one"]
    assert (block.first_sequence, block.unconfirmed_from, block.count) == (1, 1, 1)
    assert (block.producer_id, block.producer_epoch) == (PRODUCER, 1)


def test_a_batch_grows_while_one_is_in_flight_and_leaves_with_the_confirmation() -> None:
    dialogue, lane = opened()
    put(lane, b"one")
    later = [put(lane, str(number).encode()) for number in range(50)]
    assert len(dialogue.published()) == 1

    dialogue.confirm(lane.number, 1)

    (block,) = dialogue.published()
    assert block.count == 50
    assert (block.first_sequence, block.unconfirmed_from) == (2, 2)
    assert not later[0].pending.is_done()
    dialogue.confirm(lane.number, 51)
    assert later[0].pending.is_done()


def test_a_full_batch_does_not_wait_for_a_confirmation() -> None:
    dialogue, lane = opened()
    for _ in range(1 + CLIENT_BATCH_MESSAGES):
        put(lane, b"x")

    counts = [block.count for block in dialogue.published()]

    assert counts == [1, CLIENT_BATCH_MESSAGES]
    assert lane.is_idle is False


def test_a_change_of_priority_closes_the_batch_and_order_is_kept() -> None:
    dialogue, lane = opened()
    put(lane, b"first")
    dialogue.published()
    for body, key in ((b"a", KEY), (b"b", URGENT), (b"c", KEY)):
        put(lane, body, key)
    dialogue.confirm(lane.number, 1)

    blocks = dialogue.published()

    assert [bodies_of(block) for block in blocks] == [[b"a"], [b"b"], [b"c"]]
    assert [block.priority for block in blocks] == [4, 9, 4]
    assert [block.first_sequence for block in blocks] == [2, 3, 4]
    assert [block.unconfirmed_from for block in blocks] == [1, 1, 2]


def test_credit_holds_blocks_back_and_one_may_always_be_in_flight() -> None:
    dialogue, lane = opened(credit=0)
    put(lane, b"x" * 1000)
    put(lane, b"y" * 1000, URGENT)

    assert [bodies_of(block)[0][:1] for block in dialogue.published()] == [b"x"]
    assert lane.is_blocked
    dialogue.confirm(lane.number, 1, credit=0)
    assert [bodies_of(block)[0][:1] for block in dialogue.published()] == [b"y"]


def test_the_window_bounds_batches_in_flight() -> None:
    dialogue, lane = opened()
    for number in range(2 * PRODUCER_WINDOW_BATCHES):
        put(lane, b"x", KEY._replace(priority=number % 2))

    assert len(dialogue.published()) == PRODUCER_WINDOW_BATCHES
    dialogue.confirm(lane.number, 10)
    assert len(dialogue.published()) == 10


def test_whoever_sends_too_much_is_held_back_until_there_is_room() -> None:
    dialogue, lane = opened(credit=0)
    put(lane, b"x")
    put(lane, b"y" * CLIENT_WAITING_BYTES_MAX)
    room = lane.when_room()
    assert room is not None

    dialogue.confirm(lane.number, 1, credit=0)

    assert room.is_done()
    assert lane.when_room() is None


def refused(lane: Lane, first: int, last: int, code: int = 16) -> bytes:
    fields = {"producer": lane.number, "first": first, "last": last, "code": code, "text": "The disk is full."}
    return control(FrameType.REFUSED, 1, fields)


def test_refused_messages_fail_and_their_sequences_are_used_again() -> None:
    dialogue, lane = opened()
    first, second = put(lane, b"a"), put(lane, b"b", URGENT)
    dialogue.confirm(lane.number, 0)
    third = put(lane, b"c")
    dialogue.published()

    dialogue.say(refused(lane, 1, 1))
    assert isinstance(first.pending.error, errors.StorageFull)
    assert not second.pending.is_done()
    assert not dialogue.published(), "nothing is sent while refusals are still to come"
    dialogue.say(refused(lane, 2, 2))
    assert isinstance(second.pending.error, errors.StorageFull)

    (block,) = dialogue.published()
    assert (block.first_sequence, block.unconfirmed_from) == (1, 1)
    dialogue.confirm(lane.number, 1)
    assert third.pending.is_done()
    assert third.pending.error is None


def test_a_refusal_leaves_earlier_batches_alone() -> None:
    dialogue, lane = opened()
    first = put(lane, b"a")
    second = put(lane, b"b", URGENT)
    put(lane, b"c", KEY)
    assert len(dialogue.published()) == 2

    dialogue.say(refused(lane, 2, 2))

    assert not first.pending.is_done()
    assert isinstance(second.pending.error, errors.StorageFull)
    (block,) = dialogue.published()
    assert (block.first_sequence, block.unconfirmed_from) == (2, 1)


def test_after_a_loss_what_is_stored_is_confirmed_and_the_rest_sent_again() -> None:
    dialogue, lane = opened()
    stored, lost = put(lane, b"a"), put(lane, b"b", URGENT)
    put(lane, b"c")
    dialogue.published()
    dialogue.lose()

    dialogue.login(connection=b"another line 16!", resumed=True)
    asked = dialogue.answer(
        session_open={"producer_id": PRODUCER, "epoch": 2}, producer_open={"last_sequence": 1, "credit": 10_000_000}
    )

    assert [request["op"] for request in asked] == ["session.open", "producer.open"]
    assert asked[0]["producer_id"] == PRODUCER
    assert stored.pending.is_done()
    assert not lost.pending.is_done()
    blocks = dialogue.published()
    dialogue.confirm(lane.number, 2)
    blocks += dialogue.published()
    assert [bodies_of(block) for block in blocks] == [[b"b"], [b"c"]]
    assert [block.first_sequence for block in blocks] == [2, 3]
    assert {(block.connection_id, block.producer_epoch) for block in blocks} == {(b"another line 16!", 2)}
    dialogue.confirm(lane.number, 3)
    assert lane.is_idle


def test_what_is_sent_while_the_line_is_down_waits_for_it() -> None:
    dialogue, lane = opened()
    dialogue.lose()
    batch = put(lane, b"meanwhile")
    assert not batch.pending.is_done()

    dialogue.login()
    dialogue.answer()

    assert [bodies_of(block) for block in dialogue.published()] == [[b"meanwhile"]]


def test_refusals_that_were_still_to_come_count_after_a_loss() -> None:
    dialogue, lane = opened()
    put(lane, b"a")
    doomed = put(lane, b"b", URGENT)
    dialogue.confirm(lane.number, 0)
    dialogue.say(refused(lane, 1, 1))
    dialogue.lose()
    dialogue.login()
    dialogue.answer()

    assert isinstance(doomed.pending.error, errors.StorageFull)
    put(lane, b"c")
    (block,) = dialogue.published()
    assert block.first_sequence == 1


def test_a_destination_that_is_refused_fails_what_waits_for_it() -> None:
    dialogue = Dialogue()
    dialogue.login()
    session = dialogue.session()
    lane = session.lane(QUEUE)
    batch = put(lane, b"x")

    dialogue.refuse(8, "You may not send to queue:orders.")

    with pytest.raises(errors.AccessDenied):
        lane.opened.get()
    assert isinstance(batch.pending.error, errors.AccessDenied)
    assert session.lane(QUEUE) is not lane, "the next send asks again"


def test_lanes_of_a_session_count_in_ranges_of_their_own() -> None:
    dialogue = Dialogue()
    dialogue.login()
    session = dialogue.session()
    ids = []
    for destination in (QUEUE, TOPIC):
        lane = session.lane(destination)
        dialogue.answer()
        ids.append(put(lane, b"x").message_id(0))
    blocks = dialogue.published()

    assert [block.first_sequence for block in blocks] == [1, (1 << SEQUENCE_BITS) + 1]
    assert [block.unconfirmed_from for block in blocks] == [1, (1 << SEQUENCE_BITS) + 1]
    assert len(set(ids)) == 2


def test_closing_the_last_producer_closes_the_lane() -> None:
    dialogue, lane = opened()
    lane.session.close_lane(lane)

    assert [request["op"] for request in dialogue.requests()] == ["producer.close"]
    assert not dialogue.core.lanes


def test_a_lane_that_was_forgotten_fails_what_was_sent_and_goes_on_with_the_rest() -> None:
    dialogue, lane = opened(since=17)
    sent, more = put(lane, b"sent"), put(lane, b"never sent")
    dialogue.published()
    dialogue.lose()
    dialogue.pass_time(30)
    dialogue.connect()
    dialogue.welcome()
    dialogue.take(FrameType.HELLO)
    (session_request,) = dialogue.requests()
    dialogue.say(control(FrameType.REPLY, 1, {"id": session_request["id"], "producer_id": PRODUCER, "epoch": 2}))
    (again,) = dialogue.requests()
    assert again["since"] == 17
    text = "queue:orders has forgotten this producer."
    dialogue.say(control(FrameType.FAILURE, 1, {"id": again["id"], "code": errors.ProducerExpired.code, "text": text}))

    assert isinstance(sent.pending.error, errors.ProducerExpired)
    assert "1 message was not confirmed (ID:1.1.1.8-1)" in str(sent.pending.error) and text in str(sent.pending.error)
    (anew,) = dialogue.requests()
    assert "since" not in anew and anew["producer"] == lane.number
    dialogue.say(control(FrameType.REPLY, 1, {"id": anew["id"], "last_sequence": 0, "credit": 1_000_000, "since": 90}))
    (block,) = dialogue.published()
    assert bodies_of(block) == [b"never sent"]
    assert block.first_sequence == block.unconfirmed_from == (1 << SEQUENCE_BITS) + 1
    dialogue.confirm(lane.number, block.first_sequence)
    assert more.pending.done and more.pending.error is None
    assert lane.is_usable and lane.since == 90


def test_a_lane_that_is_forgotten_while_it_is_open_begins_anew() -> None:
    dialogue, lane = opened(since=17)
    sent = [put(lane, b"x") for _ in range(CLIENT_BATCH_MESSAGES + 1)]
    blocks = dialogue.published()
    assert len(blocks) == 2
    for block in blocks:
        last = block.first_sequence + block.count - 1
        code = errors.ProducerExpired.code
        fields = {"producer": lane.number, "first": block.first_sequence, "last": last, "code": code, "text": "Why."}
        dialogue.say(control(FrameType.REFUSED, 1, fields))
    assert {type(batch.pending.error) for batch in sent} == {errors.ProducerExpired}
    assert f"{CLIENT_BATCH_MESSAGES + 1:,} messages were not confirmed" in str(sent[0].pending.error)
    later = put(lane, b"later")
    assert [asked.get("since") for asked in dialogue.answer()] == [None]
    (block,) = dialogue.published()
    assert bodies_of(block) == [b"later"]
    dialogue.confirm(lane.number, block.first_sequence)
    assert later.pending.done and later.pending.error is None
