"""Settlements: numbers, bounds, and waiting until they are durable."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.dialogue import Dialogue, take_all

from tocsin.client.core_settling import Settlements, take_lost
from tocsin.model.errors import ConnectionFailed, NotAcknowledged
from tocsin.model.limits import RANGES_PER_FRAME_SENT
from tocsin.model.ranges import RangeSet, pack_ranges
from tocsin.wire.frames import FrameType, Outcome, control


def opened() -> tuple[Dialogue, Settlements]:
    dialogue = Dialogue()
    dialogue.login()
    settlements = dialogue.consumer(dialogue.session("client")).settlements
    dialogue.listen()
    dialogue.heard.clear()
    return dialogue, settlements


def test_numbers_rise_and_waiting_ends_with_the_last() -> None:
    dialogue, settlements = opened()
    settlements.outstanding.add(0, 10)
    settlements.nack([(0, 2)], None, "")
    first = settlements.when_durable()
    settlements.release([(2, 4)])
    second = settlements.when_durable()

    assert [settle.number for settle in dialogue.settled()] == [1, 2]
    settlements.confirm(1)
    assert (first.is_done(), second.is_done()) == (True, False)
    settlements.confirm(2)
    assert second.is_done()
    assert settlements.when_durable().is_done()
    assert list(settlements.outstanding) == [(4, 10)]


def test_many_ranges_go_in_several_frames() -> None:
    dialogue, settlements = opened()
    count = RANGES_PER_FRAME_SENT + 10
    settlements.outstanding.add(0, 2 * count)
    for offset in range(0, 2 * count, 2):
        settlements.to_acknowledge.add(offset, offset + 1)
    settlements.flush()
    assert [len(settle.ranges) for settle in dialogue.settled()] == [RANGES_PER_FRAME_SENT, 10]


def test_a_renewal_is_not_waited_for_and_settles_nothing() -> None:
    dialogue, settlements = opened()
    settlements.outstanding.add(0, 3)
    settlements.renew([(0, 3)])
    assert [settle.outcome for settle in dialogue.settled()] == [Outcome.RENEW]
    assert settlements.when_durable().is_done()
    assert list(settlements.outstanding) == [(0, 3)]


def test_held_is_what_is_not_settled_durably() -> None:
    _, settlements = opened()
    settlements.outstanding.add(0, 6)
    settlements.nack([(2, 4)], 0, "")
    assert list(settlements.held()) == [(0, 6)]
    settlements.confirm(1)
    assert list(settlements.held()) == [(0, 2), (4, 6)]


def test_nothing_is_repeated_for_what_went_elsewhere() -> None:
    dialogue, settlements = opened()
    settlements.outstanding.add(0, 6)
    settlements.nack([(0, 2)], 0, "")
    dialogue.settled()
    waiting = settlements.when_durable()
    settlements.repeat(RangeSet([(4, 6)]))
    assert not dialogue.settled()
    assert waiting.is_done()
    assert list(settlements.outstanding) == [(4, 6)]


def test_who_waits_is_told_of_the_end() -> None:
    _, settlements = opened()
    settlements.outstanding.add(0, 2)
    settlements.nack([(0, 2)], 0, "")
    waiting = settlements.when_durable()
    settlements.fail(ConnectionFailed("gone"))
    assert isinstance(waiting.error, ConnectionFailed)
    assert settlements.is_clear


def test_only_the_last_word_about_a_message_is_repeated() -> None:
    """Given back, received again, acknowledged: after a reconnect the server must not hear of the first part, or it
    would give the message to somebody else before it hears of the second.
    """
    dialogue, settlements = opened()
    settlements.outstanding.add(0, 4)
    settlements.nack([(0, 3)], 0, "")
    settlements.outstanding.add(0, 2)
    settlements.to_acknowledge.add(0, 1)
    settlements.flush()
    dialogue.settled()
    settlements.repeat(RangeSet([(0, 4)]))
    assert [(settle.outcome, settle.ranges) for settle in dialogue.settled()] == [
        (Outcome.NACK, [(2, 3)]),
        (Outcome.ACKNOWLEDGE, [(0, 1)]),
    ]
    assert list(settlements.outstanding) == [(1, 2), (3, 4)]


def test_what_was_said_about_messages_that_went_elsewhere_counts_for_nothing() -> None:
    dialogue, settlements = opened()
    settlements.outstanding.add(0, 6)
    settlements.to_acknowledge.add(0, 2)
    settlements.flush()
    settlements.to_acknowledge.add(2, 4)
    settlements.forget([(1, 3)])
    dialogue.settled()
    settlements.flush()
    assert [settle.ranges for settle in settlements.unconfirmed] == [[(0, 1)], [(3, 4)]]
    assert [settle.ranges for settle in dialogue.settled()] == [[(3, 4)]]
    assert list(settlements.outstanding) == [(4, 6)]


@pytest.mark.parametrize(
    ("reply", "lost"),
    [
        ({"kept": pack_ranges([(0, 3)])}, ""),
        ({"kept": pack_ranges([(2, 3)]), "finished": pack_ranges([(0, 2)])}, ""),
        ({"kept": pack_ranges([]), "finished": pack_ranges([(0, 2)])}, "1 message of queue:orders (offset 2)"),
        ({"kept": pack_ranges([(0, 1)])}, "2 messages of queue:orders (offsets 1 to 2)"),
        ({"kept": pack_ranges([])}, "3 messages of queue:orders (offsets 0 to 2)"),
    ],
)
def test_what_is_neither_kept_nor_acknowledged_is_lost(reply: dict[str, Any], lost: str) -> None:
    """Of five messages two are acknowledged without an answer, one is in hand, two were never handed out."""
    dialogue, settlements = opened()
    consumer = settlements.consumer
    dialogue.deliver(consumer, list("abcde"))
    for _ in range(3):
        assert consumer.take() is not None
    settlements.to_acknowledge.add(0, 2)
    settlements.flush()
    waiting = settlements.when_durable()
    dialogue.lose()
    dialogue.pass_time(30)
    dialogue.login()
    dialogue.answer(consumer_open=reply)
    if settlements.unconfirmed:
        dialogue.confirm_settled(consumer, settlements.number)
    assert waiting.is_done()
    error = take_lost([consumer])
    assert (lost in str(error) if lost else error is None) and take_lost([consumer]) is None
    assert not dialogue.core.untold


def test_a_notice_names_what_is_gone_and_what_of_it_is_acknowledged() -> None:
    dialogue, settlements = opened()
    consumer = settlements.consumer
    dialogue.deliver(consumer, list("abc"))
    assert take_all(consumer) == list("abc")
    settlements.to_acknowledge.add(0, 2)
    settlements.flush()
    fields = {"consumer": consumer.number, "gone": pack_ranges([(0, 3)]), "finished": pack_ranges([(0, 1)])}
    dialogue.say(control(FrameType.NOTICE, consumer.session.number, fields))
    # Nobody waits for the acknowledgement of the second, so the application is told; the third it still has in hand.
    (told,) = dialogue.core.untold
    assert isinstance(told, NotAcknowledged) and "(offset 1)" in str(told)
    # An acknowledge() that returned would say that everything before it is acknowledged.
    assert "2 messages of queue:orders (offsets 1 to 2)" in str(take_lost([consumer]))
    assert take_lost([consumer]) is None
