"""Consumers: handing out, automatic acknowledgement, credit, stop, recover, resume."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from tests.client.dialogue import TOPIC, Dialogue, take_all

from tocsin.client.core_consuming import ConsumerState
from tocsin.client.operations import close_session, receive
from tocsin.model import errors
from tocsin.model.identity import unique_id
from tocsin.model.ranges import pack_ranges
from tocsin.wire.frames import Deliver, FrameType, Outcome, control, write_deliver


def opened(ack: str = "auto", prefetch: int = 100) -> tuple[Dialogue, ConsumerState]:
    dialogue = Dialogue()
    dialogue.login()
    consumer = dialogue.consumer(dialogue.session(ack), prefetch=prefetch)
    dialogue.listen()
    dialogue.heard.clear()
    return dialogue, consumer


def test_messages_are_handed_out_in_order_with_their_fields() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b"], offset=40, properties={"region": "EU"})

    message = consumer.take()

    assert message is not None
    assert (message.body, message.offset, message.append_time) == ("a", 40, 1)
    assert (message.delivery_count, message.redelivered, message.timestamp) == (1, False, 1_600_000_000_000)
    assert dict(message.properties) == {"region": "EU", "JMSXDeliveryCount": 1}
    assert take_all(consumer) == ["b"]


def test_only_the_ranges_of_a_delivery_are_ours() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b", "c", "d", "e"], ranges=[(1, 2, 1, 0), (3, 5, 2, 1)])

    first, second = consumer.take(), consumer.take()

    assert first is not None
    assert second is not None
    assert [(each.body, each.delivery_count, each.redelivered) for each in (first, second)] == [
        ("b", 1, False),
        ("d", 2, True),
    ]
    assert take_all(consumer) == ["e"]


def test_asking_for_the_next_message_acknowledges_the_one_before() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b", "c"], offset=10)
    consumer.take()
    consumer.take()
    dialogue.pass_time(0.006)

    (settle,) = dialogue.settled()

    assert (settle.outcome, settle.number, settle.ranges) == (Outcome.ACKNOWLEDGE, 1, [(10, 11)])


def test_acknowledgements_leave_before_the_next_wait_as_one_range() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b", "c"], offset=10)
    assert take_all(consumer) == ["a", "b", "c"]

    ready = consumer.when_ready()

    assert not ready.is_done()
    assert [settle.ranges for settle in dialogue.settled()] == [[(10, 13)]]
    dialogue.deliver(consumer, ["d"], offset=13)
    assert ready.is_done()


def test_runs_that_follow_each_other_are_acknowledged_together() -> None:
    dialogue, consumer = opened()
    for offset in range(5):
        dialogue.deliver(consumer, ["x"], offset=offset)
    take_all(consumer)
    dialogue.pass_time(0.006)

    assert [settle.ranges for settle in dialogue.settled()] == [[(0, 5)]]


def test_client_mode_acknowledges_nothing_by_itself_and_everything_of_the_session_on_demand() -> None:
    dialogue, consumer = opened("client")
    other = dialogue.consumer(consumer.session)
    dialogue.deliver(consumer, ["a", "b", "c"])
    dialogue.deliver(other, ["x", "y"], offset=100)
    consumer.take()
    message = consumer.take()
    other.take()
    dialogue.pass_time(1)
    assert not dialogue.settled()

    assert message is not None
    message.acknowledge()

    settled = {settle.consumer: settle.ranges for settle in dialogue.settled()}
    assert settled == {consumer.number: [(0, 2)], other.number: [(100, 101)]}


def test_one_message_can_be_acknowledged_alone_and_only_once() -> None:
    dialogue, consumer = opened("client")
    dialogue.deliver(consumer, ["a", "b", "c"])
    _, second, _ = consumer.take(), consumer.take(), consumer.take()
    assert second is not None

    second.ack()
    second.ack()
    dialogue.pass_time(0.006)

    assert [settle.ranges for settle in dialogue.settled()] == [[(1, 2)]]


def test_nack_carries_delay_and_reason_and_is_not_acknowledged_afterwards() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b"])
    message = consumer.take()
    assert message is not None

    message.nack(delay=1.5, reason="not now")
    assert take_all(consumer) == ["b"]
    consumer.when_ready()

    nack, acknowledge = dialogue.settled()
    assert (nack.outcome, nack.ranges, nack.delay_ms, nack.reason) == (Outcome.NACK, [(0, 1)], 1500, "not now")
    assert (acknowledge.outcome, acknowledge.ranges) == (Outcome.ACKNOWLEDGE, [(1, 2)])


def test_a_message_that_was_given_back_does_not_settle_its_next_delivery() -> None:
    dialogue, consumer = opened("client")
    dialogue.deliver(consumer, ["a"])
    first = consumer.take()
    assert first is not None
    first.nack(delay=0)
    dialogue.deliver(consumer, ["a"], ranges=[(0, 1, 2, 1)])
    dialogue.settled()

    first.ack()
    dialogue.pass_time(0.006)

    assert not dialogue.settled()
    again = consumer.take()
    assert again is not None
    assert again.delivery_count == 2
    again.ack()
    dialogue.pass_time(0.006)
    assert [settle.ranges for settle in dialogue.settled()] == [[(0, 1)]]


def test_renewal_keeps_what_is_held_and_what_was_sent_ahead() -> None:
    dialogue, consumer = opened("client")
    dialogue.deliver(consumer, ["a", "b", "c"])
    message = consumer.take()
    assert message is not None
    message.renew()
    assert [(each.outcome, each.ranges) for each in dialogue.settled()] == [(Outcome.RENEW, [(0, 1)])]

    dialogue.pass_time(10.1)

    assert [(each.outcome, each.ranges) for each in dialogue.settled()] == [(Outcome.RENEW, [(0, 3)])]


def test_dups_ok_acknowledges_later_and_in_one() -> None:
    dialogue, consumer = opened("dups_ok")
    dialogue.deliver(consumer, ["a", "b", "c", "d"])
    take_all(consumer)
    consumer.when_ready()
    dialogue.pass_time(0.006)
    assert not dialogue.settled()

    for _ in range(40):
        dialogue.pass_time(0.006)

    assert [settle.ranges for settle in dialogue.settled()] == [[(0, 4)]]


def test_credit_is_raised_when_half_is_used() -> None:
    dialogue, consumer = opened(prefetch=10)
    dialogue.deliver(consumer, list("abcdefghij"))
    for _ in range(4):
        consumer.take()
    assert not dialogue.credits()

    take_all(consumer)

    (credit,) = dialogue.credits()
    assert credit.messages == 20


def test_without_prefetch_a_message_is_asked_for_one_at_a_time() -> None:
    dialogue, consumer = opened(prefetch=0)
    assert consumer.granted == 0

    consumer.when_ready()
    consumer.when_ready()
    assert [credit.messages for credit in dialogue.credits()] == [1]

    dialogue.deliver(consumer, ["a"])
    assert take_all(consumer) == ["a"]
    consumer.when_ready()
    assert [credit.messages for credit in dialogue.credits()] == [2]


def test_with_a_prefetch_of_one_the_next_comes_when_it_is_asked_for() -> None:
    dialogue, consumer = opened(prefetch=1)
    dialogue.deliver(consumer, ["a"])
    assert consumer.take() is not None
    assert not dialogue.credits()

    assert consumer.take() is None

    assert [credit.messages for credit in dialogue.credits()] == [2]


def test_nothing_is_handed_out_while_stopped_and_everything_after() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b", "c"])
    assert consumer.take() is not None

    dialogue.core.stop()
    assert consumer.take() is None
    ready = consumer.when_ready()
    assert not ready.is_done()
    dialogue.core.start()

    assert ready.is_done()
    assert take_all(consumer) == ["b", "c"]


def test_stopping_does_not_hold_up_acknowledgements() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b"])
    consumer.take()
    dialogue.core.stop()

    consumer.take()
    consumer.when_ready()

    assert [settle.ranges for settle in dialogue.settled()] == [[(0, 1)]]


def test_recover_gives_back_what_was_seen_releases_the_rest_and_waits_for_the_server() -> None:
    dialogue, consumer = opened("client")
    dialogue.deliver(consumer, ["a", "b", "c", "d"])
    consumer.take()
    consumer.take()

    consumer.recover()

    release, nack = dialogue.settled()
    assert (release.outcome, release.ranges) == (Outcome.RELEASE, [(2, 4)])
    assert (nack.outcome, nack.ranges, nack.delay_ms) == (Outcome.NACK, [(0, 2)], 0)
    dialogue.deliver(consumer, ["e"], offset=4)
    dialogue.deliver(consumer, ["a", "b", "c", "d"], ranges=[(0, 2, 2, 1), (2, 4, 1, 0)])
    assert consumer.take() is None
    dialogue.confirm_settled(consumer, nack.number)
    assert take_all(consumer) == ["a", "b", "c", "d", "e"]


def test_a_wrong_body_type_can_be_handed_back() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b"])
    message = consumer.take()
    assert message is not None

    consumer.hand_back(message)

    assert take_all(consumer) == ["a", "b"]


def test_messages_that_expire_in_the_buffer_are_not_handed_out() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["mortal"], offset=0, earliest_expiry=dialogue.wall + 50)
    dialogue.deliver(consumer, ["immortal"], offset=1)
    dialogue.wall += 51

    assert take_all(consumer) == ["immortal"]
    assert (Outcome.EXPIRED, [(0, 1)]) in [(each.outcome, each.ranges) for each in dialogue.settled()]


@pytest.mark.parametrize("ahead", [50, 60_000])
def test_a_message_that_expires_while_those_before_it_are_handed_out_is_not(ahead: int) -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b", "c"], earliest_expiry=dialogue.wall + ahead)

    first = consumer.take()
    dialogue.wall += ahead + 1

    assert first is not None
    assert consumer.take() is None
    expired = [each.ranges for each in dialogue.settled() if each.outcome is Outcome.EXPIRED]
    assert [each for ranges in expired for each in ranges] == [(1, 2), (2, 3)]
    assert consumer.unseen == 0


def test_a_consumer_that_the_server_ends_raises_its_reason_after_the_last_message() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a"])
    fields = {"consumer": consumer.number, "end": True, "code": 4, "text": "queue:orders was deleted."}
    dialogue.say(control(FrameType.NOTICE, 1, fields))

    assert take_all(consumer) == ["a"]
    assert consumer.is_over
    assert isinstance(consumer.error, errors.InvalidDestination)


@pytest.mark.parametrize("ack", ["auto", "client"])
def test_what_a_consumer_had_when_the_server_ended_it_keeps_nobody_from_closing(ack: str) -> None:
    """Nothing that is said about it will be answered: a reply in hand when its temporary queue is gone, for one."""
    dialogue, consumer = opened(ack)
    dialogue.deliver(consumer, ["in hand", "not seen yet"])
    assert consumer.take() is not None
    fields = {"consumer": consumer.number, "end": True, "code": 4, "text": "queue:orders was deleted."}
    dialogue.say(control(FrameType.NOTICE, 1, fields))

    next(pending for pending in close_session(consumer.session, acknowledge=True) if not pending.done)

    assert [request["op"] for request in dialogue.requests()] == ["session.close"]
    assert not dialogue.settled()


def test_browsing_locks_nothing_and_shows_nothing_twice_after_a_loss() -> None:
    dialogue = Dialogue()
    dialogue.login()
    consumer = dialogue.consumer(dialogue.session(), "browse")
    dialogue.deliver(consumer, ["a", "b"], ranges=[(0, 2, 1, 0)])
    assert take_all(consumer) == ["a", "b"]
    message_settles = dialogue.settled()
    dialogue.lose()
    dialogue.login()
    dialogue.answer()
    dialogue.deliver(consumer, ["a", "b", "c"])
    dialogue.say(control(FrameType.NOTICE, 1, {"consumer": consumer.number, "end": True}))

    assert take_all(consumer) == ["c"]
    assert consumer.is_over
    assert not message_settles
    assert not dialogue.settled()


def test_messages_of_a_browser_cannot_be_settled() -> None:
    dialogue = Dialogue()
    dialogue.login()
    consumer = dialogue.consumer(dialogue.session(), "browse")
    dialogue.deliver(consumer, ["a"])
    message = consumer.take()
    assert message is not None
    with pytest.raises(errors.IllegalState):
        message.ack()


def test_replay_goes_on_where_it_was() -> None:
    dialogue = Dialogue()
    dialogue.login()
    consumer = dialogue.consumer(dialogue.session(), "replay", destination=TOPIC, start={"at": "earliest"}, prefetch=10)
    dialogue.deliver(consumer, ["a", "b", "c"], offset=7)
    assert consumer.take() is not None
    dialogue.lose()
    dialogue.login()

    asked = dialogue.answer()

    assert [request["start"] for request in asked if request["op"] == "consumer.open"] == [{"offset": 10}]
    assert take_all(consumer) == ["b", "c"]


def test_resume_names_what_is_held_and_drops_what_went_elsewhere_unseen() -> None:
    dialogue, consumer = opened("client")
    dialogue.deliver(consumer, list("abcdef"))
    seen = consumer.take()
    assert seen is not None
    dialogue.lose()
    dialogue.login(resumed=True)

    asked = dialogue.answer(consumer_open={"kept": pack_ranges([(0, 2), (4, 5)])})

    (request,) = [request for request in asked if request["op"] == "consumer.open"]
    assert request["held"] == pack_ranges([(0, 6)])
    assert request["messages"] == 95
    assert take_all(consumer) == ["b", "e"]
    seen.ack()
    dialogue.pass_time(0.006)
    assert [settle.ranges for settle in dialogue.settled()] == [[(0, 1)]]


def test_what_came_from_another_server_is_never_claimed() -> None:
    """Also when the line breaks after the new server has given its token and before it has opened the consumer."""
    elsewhere = unique_id(2, 2, 2, 7)
    dialogue, consumer = opened("client")
    dialogue.deliver(consumer, list("abcdef"))
    seen = consumer.take()
    assert seen is not None
    for _ in range(2):
        dialogue.lose()
        dialogue.login(connection=elsewhere)
    asked = dialogue.answer(consumer_open={"kept": pack_ranges([])})

    (request,) = [request for request in asked if request["op"] == "consumer.open"]
    assert request["held"] == b""
    assert take_all(consumer) == []
    with pytest.raises(errors.NotAcknowledged):
        seen.ack()
    dialogue.pass_time(0.006)
    assert dialogue.settled() == []

    dialogue.deliver(consumer, ["other"])
    assert take_all(consumer) == ["other"]
    dialogue.lose()
    dialogue.login(connection=elsewhere)
    (request,) = [request for request in dialogue.answer() if request["op"] == "consumer.open"]
    assert request["held"] == pack_ranges([(0, 1)])


@pytest.mark.parametrize("ack", ["auto", "client"])
def test_what_came_from_another_server_settles_nothing_here(ack: str) -> None:
    """The same offset is another message by then, delivered and not handed out yet."""
    dialogue, consumer = opened(ack)
    dialogue.deliver(consumer, ["old"])
    old = consumer.take()
    assert old is not None
    dialogue.lose()
    dialogue.login(connection=unique_id(2, 2, 2, 7))
    dialogue.answer(consumer_open={"kept": pack_ranges([])})
    dialogue.deliver(consumer, ["new"])

    with pytest.raises(errors.NotAcknowledged) if ack == "client" else nullcontext():
        old.ack()
    old.nack()
    old.renew()
    new = consumer.take()
    dialogue.pass_time(0.006)

    assert new is not None and new.body == "new"
    assert dialogue.settled() == []
    new.ack()
    dialogue.pass_time(0.006)
    assert [settle.ranges for settle in dialogue.settled()] == [[(0, 1)]]


def test_acknowledged_while_the_line_was_down_is_not_acknowledged_at_another_server() -> None:
    dialogue, consumer = opened("client")
    dialogue.deliver(consumer, ["old"])
    old = consumer.take()
    assert old is not None
    dialogue.lose()
    old.ack()
    dialogue.login(connection=unique_id(2, 2, 2, 7))
    dialogue.answer(consumer_open={"kept": pack_ranges([])})
    dialogue.deliver(consumer, ["new"])
    dialogue.pass_time(0.006)
    assert dialogue.settled() == []
    assert consumer.settlements.when_durable().is_done()


def test_resume_repeats_settlements_that_were_not_confirmed_for_what_was_kept() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b", "c", "d"])
    take_all(consumer)
    consumer.when_ready()
    (settle,) = dialogue.settled()
    durable = consumer.settlements.when_durable()
    dialogue.lose()
    dialogue.login(resumed=True)

    asked = dialogue.answer(consumer_open={"kept": pack_ranges([(2, 4)])})

    (request,) = [request for request in asked if request["op"] == "consumer.open"]
    assert request["held"] == pack_ranges([(0, 4)])
    (again,) = dialogue.settled()
    assert (again.number, again.ranges, again.outcome) == (settle.number, [(2, 4)], Outcome.ACKNOWLEDGE)
    assert not durable.is_done()
    dialogue.confirm_settled(consumer, again.number)
    assert durable.is_done()


def test_acknowledgements_made_while_the_line_is_down_are_sent_when_it_is_up() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b"])
    consumer.take()
    dialogue.lose()
    consumer.take()
    consumer.take()
    dialogue.pass_time(0.006)
    dialogue.login(resumed=True)

    dialogue.answer(consumer_open={"kept": pack_ranges([(0, 2)])})

    assert [settle.ranges for settle in dialogue.settled()] == [[(0, 2)]]


def test_a_delivery_to_a_closed_consumer_goes_back_unseen() -> None:
    dialogue, consumer = opened()
    consumer.closed = True
    dialogue.deliver(consumer, ["late"], offset=9)

    assert [(each.outcome, each.ranges) for each in dialogue.settled()] == [(Outcome.RELEASE, [(9, 10)])]
    assert consumer.take() is None


def test_an_unreadable_block_is_given_back_with_the_reason() -> None:
    dialogue, consumer = opened()

    dialogue.say(b"".join(write_deliver(1, Deliver(consumer.number, 3, 1, [(0, 1, 1, 0)], b"not a block" * 20))))

    (settle,) = dialogue.settled()
    assert (settle.outcome, settle.ranges) == (Outcome.NACK, [(3, 4)])
    assert "unreadable" in settle.reason


def test_a_message_handed_back_does_not_take_acknowledgements_with_it() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b", "c"])
    consumer.take()
    message = consumer.take()
    assert message is not None

    consumer.hand_back(message)
    dialogue.pass_time(0.006)

    assert [settle.ranges for settle in dialogue.settled()] == [[(0, 1)]]
    assert take_all(consumer) == ["b", "c"]


def test_somebody_who_waits_without_prefetch_is_served_after_a_loss() -> None:
    dialogue, consumer = opened(prefetch=0)
    ready = consumer.when_ready()
    dialogue.lose()
    dialogue.login(resumed=True)
    dialogue.answer(consumer_open={"kept": pack_ranges([])})

    assert [credit.messages for credit in dialogue.credits()] == [1]
    dialogue.deliver(consumer, ["a"])
    assert ready.is_done()


def test_dups_ok_acknowledges_the_last_message_too() -> None:
    dialogue, consumer = opened("dups_ok")
    dialogue.deliver(consumer, ["only"])
    assert take_all(consumer) == ["only"]
    for _ in range(40):
        dialogue.pass_time(0.006)
    assert [settle.ranges for settle in dialogue.settled()] == [[(0, 1)]]


def test_a_busy_application_is_not_looked_at_for_ever() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b", "c"])
    consumer.take()
    for _ in range(5):
        dialogue.pass_time(0.006)
    deadline = dialogue.core.next_deadline()
    assert deadline is not None
    assert deadline > dialogue.now_seconds + 1, "no tick is due while the application handles its message"

    consumer.take()
    dialogue.pass_time(0.006)

    assert [settle.ranges for settle in dialogue.settled()] == [[(0, 1)]]


def test_what_was_handed_out_is_not_taken_back() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b", "c"])
    run = consumer.advance()
    assert run is not None
    # The application's thread has taken the first message, and has not noted it yet.
    assert next(run.rest) == 0

    consumer.recover()

    assert (Outcome.RELEASE, [(1, 3)]) in [(each.outcome, each.ranges) for each in dialogue.settled()]


def test_what_the_server_could_not_keep_is_dropped_unless_it_was_handed_out() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b", "c", "d", "e"])
    first = consumer.take()
    assert first is not None and first.body == "a"

    dialogue.say(control(FrameType.NOTICE, 1, {"consumer": consumer.number, "gone": pack_ranges([(0, 2), (3, 4)])}))

    assert take_all(consumer) == ["c", "e"]
    dialogue.pass_time(0.006)
    assert consumer.settlements.outstanding.count() == 0
    assert [settle.ranges for settle in dialogue.settled()][-1][-1] == (4, 5)


@pytest.mark.parametrize("wrong_by", [-3_600_000, 0, 3_600_000])
def test_what_expires_does_so_by_the_servers_time_wherever_our_own_clock_is(wrong_by: int) -> None:
    dialogue = Dialogue()
    server_time = dialogue.wall
    dialogue.wall += wrong_by
    dialogue.login(time_ms=server_time)
    consumer = dialogue.consumer(dialogue.session())
    dialogue.deliver(consumer, ["in time"], earliest_expiry=server_time + 5_000)
    assert take_all(consumer) == ["in time"]
    dialogue.deliver(consumer, ["runs out"], offset=1, earliest_expiry=server_time + 5_000)
    dialogue.wall += 7_200_000  # Somebody sets our clock: nothing depends on it.
    dialogue.now_seconds += 4.9
    assert take_all(consumer) == ["runs out"]
    dialogue.deliver(consumer, ["over"], offset=2, earliest_expiry=server_time + 5_000)
    dialogue.now_seconds += 0.2
    assert take_all(consumer) == []
    assert [settle.outcome for settle in dialogue.settled()][-1] is Outcome.EXPIRED


def damaged(dialogue: Dialogue, consumer: ConsumerState) -> None:
    words = {"code": errors.DataDamaged.code, "text": "Offsets 2 to 4 cannot be read."}
    dialogue.say(control(FrameType.NOTICE, 1, {"consumer": consumer.number, **words}))


def test_who_receives_is_told_once_of_what_is_damaged_and_goes_on() -> None:
    dialogue, consumer = opened()
    dialogue.deliver(consumer, ["a", "b"])
    waiting = receive(consumer)
    damaged(dialogue, consumer)
    dialogue.deliver(consumer, ["e", "f"], offset=4)
    assert take_all(consumer) == ["a", "b", "e", "f"]

    with pytest.raises(errors.DataDamaged, match="Offsets 2 to 4"):
        next(waiting)

    dialogue.deliver(consumer, ["g"], offset=6)
    assert take_all(consumer) == ["g"] and not consumer.ended


def test_damage_ends_the_wait_of_who_receives() -> None:
    dialogue, consumer = opened()
    waiting = receive(consumer)
    ready = next(waiting)
    done = [ready.done]
    damaged(dialogue, consumer)
    assert [*done, ready.done] == [False, True]
    with pytest.raises(errors.DataDamaged):
        next(waiting)


def test_a_listener_hears_of_damage_by_on_error() -> None:
    dialogue, consumer = opened()
    consumer.listening = True
    damaged(dialogue, consumer)
    assert [type(error) for error in dialogue.core.untold] == [errors.DataDamaged]
    assert not consumer.ended and not consumer.unreadable
