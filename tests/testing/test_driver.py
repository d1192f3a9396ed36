"""The driver is trusted by many tests, so what it promises is tested itself."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.model.errors import InvalidClientId, StorageFailed
from tocsin.testing.disk import Fault
from tocsin.testing.driver import Driver, Setup
from tocsin.wire.frames import FrameType


def test_what_is_sent_is_confirmed_and_delivered_at_once() -> None:
    session = Driver().connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    assert producer.send("one", "two") == 2
    assert producer.confirmed == 2
    assert consumer.bodies() == ["one", "two"]


def test_on_a_slow_disk_nothing_is_confirmed_or_delivered_before_it_is_written() -> None:
    driver = Driver()
    session = driver.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    with driver.slow_disk():
        producer.send("one")
        assert producer.confirmed == 0
        assert consumer.take() == []
    assert producer.confirmed == 1
    assert consumer.bodies() == ["one"]


@pytest.mark.parametrize("at_once", [False, True])
def test_what_a_failing_disk_did_not_take_is_neither_confirmed_nor_delivered(at_once: bool) -> None:
    driver = Driver(Setup(at_once=at_once))
    session = driver.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send("one")
    driver.disk.faults[driver.disk.operations + 1] = Fault.FAIL
    with pytest.raises(StorageFailed):
        producer.send("two")
    assert driver.disk.trace[-1].split()[1] == "sync"
    assert producer.confirmed == 1
    assert consumer.bodies() == ["one"]


def test_a_crash_loses_what_was_not_written_and_nothing_else() -> None:
    driver = Driver()
    producer = driver.connect().session().producer("queue:orders")
    producer.send("confirmed")
    with driver.slow_disk():
        producer.send("unconfirmed")
        after = driver.crash(Random(1))
    assert after.connect().session().consumer("queue:orders").bodies() == ["confirmed"]


def test_the_clock_goes_on_through_a_crash() -> None:
    driver = Driver()
    driver.advance(5)
    after = driver.crash()
    after.advance(5)
    assert after.clock.now() == pytest.approx(10)


def test_a_day_passes_quickly_and_stops_at_every_deadline() -> None:
    driver = Driver()
    session = driver.connect().session()
    due = int(driver.clock.wall() * 1000) + 12_345_678
    session.producer("queue:orders").send("later", due=due)
    consumer = session.consumer("queue:orders")
    driver.advance(24 * 3600)
    first = consumer.take()[0]
    assert due <= first.append_time <= due + 2


def test_frames_are_kept_until_they_are_taken() -> None:
    client = Driver().connect()
    client.ping()
    assert [frame.type for frame in client.take(FrameType.PONG)] == [FrameType.PONG]
    assert client.take(FrameType.PONG) == []


def test_a_broken_connection_can_be_resumed() -> None:
    driver = Driver()
    client = driver.connect("me")
    session = client.session()
    driver.hang_up(client)
    again = driver.connect(resume=client)
    assert again.welcome["resumed"] is True
    assert again.session(1, session).resumed is True


def test_a_refused_greeting_raises_the_reason() -> None:
    driver = Driver()
    driver.connect("me")
    with pytest.raises(InvalidClientId):
        driver.connect("me")


def test_a_clean_stop_keeps_everything() -> None:
    driver = Driver()
    driver.connect().session().producer("queue:orders").send("one")
    assert driver.stop().show("queue:orders")["messages"] == 1


def test_a_killed_process_loses_nothing_that_was_written() -> None:
    driver = Driver()
    driver.connect().session().producer("queue:orders").send("one")
    assert driver.kill().show("queue:orders")["messages"] == 1
