"""Operations in steps: closing, consumers with unacknowledged messages, and what an application may ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.client.dialogue import QUEUE, TOPIC, Dialogue, drive

from tocsin.client import operations
from tocsin.client.consumer_spec import make_spec
from tocsin.client.core_consuming import ConsumerState
from tocsin.model.errors import IllegalState, InvalidDestination
from tocsin.wire.frames import Outcome


def opened(ack: str = "auto") -> tuple[Dialogue, ConsumerState]:
    dialogue = Dialogue()
    dialogue.login()
    consumer = dialogue.consumer(dialogue.session(ack))
    dialogue.deliver(consumer, ["a", "b", "c"])
    consumer.take()
    dialogue.listen()
    dialogue.heard.clear()
    return dialogue, consumer


def outcomes(dialogue: Dialogue) -> list[tuple[Outcome, list[tuple[int, int]]]]:
    return [(settle.outcome, settle.ranges) for settle in dialogue.settled()]


def finish(dialogue: Dialogue, steps: Any) -> Any:
    """Plays a server that answers everything."""
    pending, result = drive(steps)
    while pending is not None:
        for settle in dialogue.settled():
            dialogue.confirm_settled(dialogue.core.consumers[settle.consumer], settle.number)
        dialogue.answer()
        assert pending.is_done(), "the operation waits for something that no server would say"
        try:
            pending = steps.send(pending.get())
        except StopIteration as end:
            return end.value
    return result


def test_closing_an_automatic_consumer_acknowledges_what_was_handed_out_and_releases_the_rest() -> None:
    dialogue, consumer = opened()
    steps = operations.close_consumer(consumer, acknowledge=True)
    pending, _ = drive(steps)
    assert pending is not None
    assert not pending.is_done()
    assert outcomes(dialogue) == [(Outcome.ACKNOWLEDGE, [(0, 1)]), (Outcome.RELEASE, [(1, 3)])]

    dialogue.confirm_settled(consumer, 2)
    closing = steps.send(None)

    assert [request["op"] for request in dialogue.answer()] == ["consumer.close"]
    assert closing.is_done()
    assert consumer not in consumer.session.consumers


def test_leaving_by_an_exception_gives_the_message_back() -> None:
    dialogue, consumer = opened()
    drive(operations.close_consumer(consumer, acknowledge=False))
    assert outcomes(dialogue) == [(Outcome.RELEASE, [(1, 3)]), (Outcome.NACK, [(0, 1)])]


def test_a_closed_consumer_of_a_client_session_waits_for_its_acknowledgements() -> None:
    dialogue, consumer = opened("client")

    pending, _ = drive(operations.close_consumer(consumer, acknowledge=True))
    assert pending is None
    assert outcomes(dialogue) == [(Outcome.RELEASE, [(1, 3)])]
    assert consumer in consumer.session.consumers

    consumer.session.acknowledge_all()
    assert outcomes(dialogue) == [(Outcome.ACKNOWLEDGE, [(0, 1)])]
    dialogue.confirm_settled(consumer, 2)
    assert [request["op"] for request in dialogue.answer()] == ["consumer.close"]
    assert consumer not in consumer.session.consumers


def test_opening_the_same_view_again_ends_the_closed_consumer_first() -> None:
    dialogue, consumer = opened("client")
    drive(operations.close_consumer(consumer, acknowledge=True))
    dialogue.settled()

    again = finish(dialogue, operations.open_consumer(consumer.session, make_spec(QUEUE)))

    assert isinstance(again, ConsumerState)
    assert consumer.session.consumers == [again]


def test_closing_a_session_settles_all_consumers_and_says_so_to_the_server() -> None:
    dialogue, consumer = opened("client")
    session = consumer.session
    steps = operations.close_session(session, acknowledge=True)
    pending, _ = drive(steps)
    assert pending is not None
    assert outcomes(dialogue) == [(Outcome.RELEASE, [(1, 3)]), (Outcome.NACK, [(0, 1)])]
    dialogue.confirm_settled(consumer, 2)
    closing = steps.send(None)
    assert [request["op"] for request in dialogue.answer()] == ["session.close"]
    assert closing.is_done()
    assert session.closed
    assert not dialogue.core.sessions
    with pytest.raises(IllegalState, match="closed"):
        session.check_open()
    assert drive(operations.close_session(session, acknowledge=True)) == (None, None)


def test_receive_waits_and_ends_with_the_consumer() -> None:
    _, consumer = opened()
    steps = operations.receive(consumer)
    assert drive(steps)[1].body == "b"
    assert drive(operations.receive(consumer))[1].body == "c"
    steps = operations.receive(consumer)
    pending, _ = drive(steps)
    assert pending is not None

    drive(operations.close_consumer(consumer, acknowledge=True))

    assert pending.is_done()
    with pytest.raises(StopIteration) as end:
        steps.send(None)
    assert end.value.value is None
    with pytest.raises(IllegalState, match="closed"):
        operations.check_receiving(consumer)


def test_the_first_consumer_starts_the_connection_unless_told_otherwise() -> None:
    for autostart in (True, False):
        dialogue = Dialogue(autostart=autostart)
        dialogue.login()
        session = dialogue.session()
        finish(dialogue, operations.open_consumer(session, make_spec(QUEUE)))
        assert dialogue.core.started is autostart


def test_a_connection_that_was_stopped_is_not_started_by_a_consumer() -> None:
    dialogue = Dialogue()
    dialogue.login()
    session = dialogue.session()
    dialogue.core.stop()
    finish(dialogue, operations.open_consumer(session, make_spec(QUEUE)))
    assert not dialogue.core.started


def test_transactions_and_unknown_ways_to_acknowledge_are_refused() -> None:
    dialogue = Dialogue()
    dialogue.login()
    with pytest.raises(IllegalState, match="not available in this release"):
        drive(operations.open_session(dialogue.core, "auto", transacted=True))
    with pytest.raises(IllegalState, match="dups_ok"):
        drive(operations.open_session(dialogue.core, "never", transacted=False))


@pytest.mark.parametrize(
    ("start", "fields"),
    [
        (None, None),
        ("earliest", {"at": "earliest"}),
        (7, {"offset": 7}),
        (datetime(2026, 1, 1, tzinfo=UTC), {"time_ms": 1_767_225_600_000}),
    ],
)
def test_places_to_start(start: Any, fields: Any) -> None:
    assert make_spec(TOPIC, mode="replay", start=start).start == fields


@pytest.mark.parametrize("start", ["middle", -1, True, 1.5, datetime(2026, 1, 1)])  # noqa: DTZ001  the point of it
def test_bad_places_to_start_are_refused(start: Any) -> None:
    with pytest.raises(IllegalState, match="start"):
        make_spec(TOPIC, mode="replay", start=start)


@pytest.mark.parametrize(
    ("destination", "options"),
    [
        (QUEUE, {"subscription": "s"}),
        (QUEUE, {"no_local": True}),
        (QUEUE, {"mode": "replay"}),
        (TOPIC, {"mode": "browse"}),
        (TOPIC, {"durable": True}),
        (TOPIC, {"shared": True}),
        (TOPIC, {"subscription": ""}),
        (TOPIC, {"subscription": "with space"}),
        (TOPIC, {"subscription": "x" * 256}),
        ("orders", {}),
    ],
)
def test_what_does_not_fit_together_is_refused(destination: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDestination):
        make_spec(destination, **options)


@pytest.mark.parametrize("prefetch", [-1, 1 << 20])
def test_prefetch_is_bounded(prefetch: int) -> None:
    with pytest.raises(IllegalState, match="prefetch"):
        make_spec(QUEUE, prefetch=prefetch)
