"""What is remembered of consumers that vanished, and how much."""

from __future__ import annotations

from tests.message_manager.dialogue import server, session_of

from tocsin.message_manager.forfeits import Forfeits
from tocsin.model.limits import FORFEIT_RANGES_MAX, FORFEITS_MAX, HELD_RANGES_MAX, SESSION_GRACE_SECONDS

SCATTERED = [(start, start + 1) for start in range(0, 2 * HELD_RANGES_MAX, 2)]


def key(number: int) -> tuple[bytes, int]:
    return b"s" * 16, number


def test_what_one_held_is_told_once() -> None:
    forfeits = Forfeits()
    forfeits.note(key(1), [(4, 5), (0, 2), (2, 3)])
    forfeits.note(key(2), [])
    assert forfeits.take(key(1)) == [(0, 3), (4, 5)]
    assert forfeits.take(key(1)) == forfeits.take(key(2)) == [] and forfeits.ranges == 0


def test_the_first_to_vanish_are_forgotten_first() -> None:
    forfeits = Forfeits()
    for number in range(FORFEITS_MAX + 2):
        forfeits.note(key(number), [(0, 1)])
    assert not forfeits.take(key(1)) and forfeits.take(key(2)) == [(0, 1)]
    for number in range(6):
        forfeits.note(key(number), SCATTERED)
    assert forfeits.ranges <= FORFEIT_RANGES_MAX
    assert not forfeits.take(key(1)) and forfeits.take(key(2)) == SCATTERED


def test_a_consumer_that_vanishes_with_many_single_messages_costs_one_range() -> None:
    driver = server()
    producer = session_of(driver).producer("queue:orders")
    for _ in range(100):
        producer.send("x")
    client = driver.connect()
    assert len(client.session().consumer("queue:orders", messages=100).take()) == 100
    driver.hang_up(client)
    driver.advance(SESSION_GRACE_SECONDS + 1)
    assert driver.manager.attachments._forfeits.ranges == 1
