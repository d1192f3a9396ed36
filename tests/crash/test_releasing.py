"""What was acknowledged is dropped from the journal only when the acknowledgement itself can't be lost any more."""

from __future__ import annotations

from random import Random

from tocsin.model.limits import KIB
from tocsin.testing.clock import VirtualClock
from tocsin.testing.disk import SimulatedDisk
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_session import ScriptedSession

SETUP = Setup(segment_bytes=8 * KIB)
MESSAGES = 40


def full_queue(driver: Driver) -> ScriptedSession:
    """In segments that lie below two snapshots."""
    session = driver.connect().session()
    producer = session.producer("queue:a")
    for number in range(MESSAGES):
        producer.send(b"%03d" % number + b"x" * 500)
    for _ in range(2):
        session.producer("queue:b").send("more")
        driver.snapshot()
    return session


def test_a_crash_before_the_acknowledgement_is_durable() -> None:
    driver = Driver(SETUP, SimulatedDisk(), VirtualClock())
    consumer = full_queue(driver).consumer("queue:a")
    messages = consumer.take()
    assert len(messages) == MESSAGES
    before = driver.disk.list("journal")
    with driver.slow_disk():
        consumer.ack(*messages)
        driver.advance(5)
        assert driver.disk.list("journal") == before
        again = driver.crash(Random(1))
        assert again.show("queue:a")["messages"] == MESSAGES
        assert len(again.connect().session().consumer("queue:a").take()) == MESSAGES
    driver.advance(5)
    assert len(driver.disk.list("journal")) < len(before)
    assert driver.crash(Random(1)).show("queue:a")["messages"] == 0
