"""A server that sends far more than it was asked for is left; one that keeps to the credit never is."""

from __future__ import annotations

import pytest
from tests.client.dialogue import QUEUE, TOPIC, Dialogue, drive, make_block, take_all

from tocsin.client import core_credit, reading
from tocsin.client.core import Phase
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_reading import RangeState
from tocsin.model.destination import DEAD_MESSAGES, Destination, Kind
from tocsin.model.errors import ProtocolError
from tocsin.model.limits import GROUPS_MAX, KIB

BODY = b"x" * 1_000
BLOCK = len(make_block([BODY]))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_credit, "BLOCK_BYTES_MAX", 4 * BLOCK)


def opened(
    prefetch: int = 10, destination: Destination = QUEUE, mode: str = "consume"
) -> tuple[Dialogue, ConsumerState]:
    dialogue = Dialogue()
    dialogue.login()
    spec = {"destination": destination, "buffer_bytes": 64 * BLOCK}
    return dialogue, dialogue.consumer(dialogue.session(), mode, prefetch, **spec)


def opened_range(browsing: bool = False) -> tuple[Dialogue, RangeState]:
    dialogue = Dialogue()
    dialogue.login()
    session = dialogue.session()
    if browsing:
        spec = reading.browse_spec(QUEUE, None, 64 * KIB)
    else:
        spec = reading.range_spec(TOPIC, 0, 1_000_000, None, None, 64 * KIB, False, None)
    steps = reading.open_range(session, spec)
    drive(steps)
    dialogue.answer()
    _, state = drive(steps)
    assert isinstance(state, RangeState)
    return dialogue, state


def flood(dialogue: Dialogue, consumer: ConsumerState, most: int = 5_000) -> int:
    """Sends without looking at the credit; gives how many messages were taken in before the line was cut."""
    for number in range(most):
        dialogue.deliver(consumer, [BODY], offset=number)
        if dialogue.phase() is Phase.DOWN:
            assert isinstance(dialogue.core._last_error, ProtocolError)
            assert "asked for" in str(dialogue.core._last_error)
            return number
    return most


@pytest.mark.parametrize("mode", ["consume", "browse", "replay"])
def test_a_flood_of_messages_ends_the_connection(mode: str) -> None:
    dialogue, consumer = opened(mode=mode, destination=TOPIC if mode == "replay" else QUEUE)
    assert flood(dialogue, consumer) == 20, "the credit, and as much again"
    assert consumer.unseen == 20


def test_a_flood_of_bytes_ends_the_connection() -> None:
    dialogue, consumer = opened(prefetch=10_000)
    assert flood(dialogue, consumer) == 64 + 64 + 4


@pytest.mark.parametrize("browsing", [False, True])
def test_a_flood_to_a_reader_of_a_range_ends_the_connection(browsing: bool) -> None:
    dialogue, state = opened_range(browsing)
    taken_in = flood(dialogue, state)
    assert taken_in == len(state.blocks)
    assert taken_in * BLOCK <= 2 * 64 * KIB + 4 * BLOCK < (taken_in + 1) * BLOCK


def test_a_consumer_that_is_closed_takes_no_flood_either() -> None:
    dialogue, consumer = opened()
    consumer.closed = True
    assert flood(dialogue, consumer) == 20


def test_who_asks_for_one_at_a_time_gets_no_flood() -> None:
    dialogue, consumer = opened(prefetch=0)
    consumer.when_ready()
    assert flood(dialogue, consumer) == 2


def test_whoever_takes_what_comes_gets_more_for_ever() -> None:
    dialogue, consumer = opened()
    other, state = opened_range()
    for number in range(500):
        dialogue.deliver(consumer, [BODY], offset=number)
        other.deliver(state, [BODY], offset=number)
        assert len(take_all(consumer)) == 1
        assert state.take_block() is not None
    assert (dialogue.phase(), other.phase()) == (Phase.ONLINE, Phase.ONLINE)


def test_after_a_reconnect_counts_begin_anew_and_what_was_under_way_may_still_come() -> None:
    dialogue, consumer = opened()
    for round_ in range(5):
        for number in range(10):
            dialogue.deliver(consumer, [BODY], offset=100 * round_ + number)
        assert len(take_all(consumer)) == 10
        dialogue.lose()
        dialogue.login()
        dialogue.answer()
        assert (consumer.granted, consumer.received) == (10, 0)
    for number in range(20):
        dialogue.deliver(consumer, [BODY], offset=1_000 + number)
    assert dialogue.phase() is Phase.ONLINE


def test_each_group_of_a_cluster_may_fill_the_credit_with_dead_messages() -> None:
    dead = Destination(Kind.QUEUE, DEAD_MESSAGES)
    dialogue, consumer = opened(prefetch=1, destination=dead)
    assert flood(dialogue, consumer) == 1 + GROUPS_MAX

    dialogue, consumer = opened(prefetch=0, destination=dead)
    consumer.when_ready()
    for number in range(3):
        dialogue.deliver(consumer, [BODY], offset=number)
    assert len(take_all(consumer)) == 3
    dialogue.credits()
    consumer.when_ready()
    (credit,) = dialogue.credits()
    assert credit.messages == 4, "what came beyond the credit must not keep the next one away"


def test_what_was_granted_once_stays_granted() -> None:
    """The server goes by the most that it has heard of, so it is not to blame for what comes then."""
    _, consumer = opened()
    before = consumer.granted_bytes
    consumer.buffered_bytes += before
    consumer._grant(consumer.granted)
    assert consumer.granted_bytes == before
