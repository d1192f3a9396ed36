"""What was acknowledged is dropped from the journal only when the acknowledgement itself can't be lost any more."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.model.limits import KIB, ROOM_SNAPSHOT_SECONDS
from tocsin.node.upkeep import Upkeep
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


def test_room_of_purged_messages_comes_back_by_itself() -> None:
    """Far from the next snapshot that many bytes would bring, and nobody sends anything any more."""
    driver = Driver(SETUP, SimulatedDisk(), VirtualClock())
    client = driver.connect()
    producer = client.session().producer("queue:a")
    for number in range(MESSAGES):
        producer.send(b"%03d" % number + b"x" * 500)
    before = len(driver.disk.list("journal"))
    driver.advance(3 * ROOM_SNAPSHOT_SECONDS)
    assert len(driver.disk.list("journal")) >= before and driver.disk.list("snapshots") == ()
    client.request("destination.purge", destination="queue:a")
    driver.advance(3 * ROOM_SNAPSHOT_SECONDS)
    assert len([name for name in driver.disk.list("journal") if name.endswith(".seg")]) == 2, "newest and reserve"
    stands = driver.storage.journal.last_lsn
    driver.advance(3 * ROOM_SNAPSHOT_SECONDS)
    assert driver.storage.journal.last_lsn == stands, "then it is quiet again"
    assert driver.crash(Random(1)).show("queue:a")["messages"] == 0


def test_files_that_a_crash_kept_from_being_dropped_go_after_the_start() -> None:
    """A snapshot knows of the purge already, so no record of it is replayed."""
    driver = Driver(SETUP, SimulatedDisk(), VirtualClock())
    client = driver.connect()
    client.request("destination.create", destination="topic:kept", retained=True)
    producer = client.session().producer("topic:kept")
    for number in range(MESSAGES):
        producer.send(b"%03d" % number + b"x" * 500)
    driver.advance(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Upkeep, "drop_stream", lambda *_: None)
        client.request("destination.purge", destination="topic:kept")
        driver.snapshot()
    (stream,) = driver.disk.list("streams")
    assert len(driver.disk.list(f"streams/{stream}")) > 3
    again = driver.crash(Random(1))
    again.advance(1)
    assert len(again.disk.list(f"streams/{stream}")) == 2, "an empty file and the spare"
