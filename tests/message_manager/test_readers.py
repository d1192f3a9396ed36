"""Browsing and replay: reading without taking."""

from __future__ import annotations

import pytest
from tests.message_manager.dialogue import NOTHING_CACHED, drain, ends, now_ms, server, session_of, state_of

from tocsin.model.errors import InvalidDestination
from tocsin.testing.driver import Driver, Setup


def retained(driver: Driver) -> None:
    driver.connect().request("destination.create", destination="topic:news", retained=True)


# ---- browse


def test_a_browser_sees_what_is_there_in_the_order_of_delivery_and_takes_nothing() -> None:
    driver = server()
    producer = session_of(driver).producer("queue:orders")
    producer.send("a", "b")
    producer.send("urgent", priority=9)
    producer.send("delayed", due=now_ms(driver) + 60_000)
    session = session_of(driver)
    browser = session.consumer("queue:orders", mode="browse")
    assert browser.bodies() == ["urgent", "a", "b"]
    assert browser.ended == {"consumer": browser.number, "end": True}
    assert drain(driver) == ["urgent", "a", "b"]


def test_a_browser_does_not_see_what_comes_after_it_began() -> None:
    driver = server()
    session = session_of(driver)
    producer = session.producer("queue:orders")
    producer.send("a", "b")
    browser = session.consumer("queue:orders", mode="browse", messages=1)
    producer.send("c")
    browser.grant(100)
    assert browser.bodies() == ["a", "b"]


def test_a_browser_skips_what_is_finished_or_expired_and_shows_what_is_in_flight() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("done", "in flight", "short", expiry=[0, 0, now_ms(driver) + 1_000])
    done, in_flight, short = consumer.take()
    consumer.ack(done)
    consumer.release(short)
    driver.clock.advance(2)
    assert session_of(driver).consumer("queue:orders", mode="browse").bodies() == ["in flight"]
    consumer.ack(in_flight)


def test_a_browser_has_a_selector_and_credit() -> None:
    driver = server()
    session = session_of(driver)
    producer = session.producer("queue:orders")
    for start in range(0, 30, 10):
        producer.send(*[str(start + n) for n in range(10)], properties={"even": [n % 2 == 0 for n in range(10)]})
    browser = session.consumer("queue:orders", mode="browse", selector="even", messages=3)
    got = browser.bodies()
    assert got == ["0", "2", "4"]
    for credit in range(4, 20):
        browser.grant(credit)
        got += browser.bodies()
    assert got == [str(number) for number in range(0, 30, 2)]
    assert browser.ended


def test_a_browser_of_an_empty_queue_ends_at_once() -> None:
    assert session_of(server()).consumer("queue:orders", mode="browse").ended


def test_the_number_of_a_browser_that_ended_can_be_used_again() -> None:
    driver = server()
    session = session_of(driver)
    session.producer("queue:orders").send("a")
    browser = session.consumer("queue:orders", mode="browse")
    assert browser.bodies() == ["a"]
    again = session.consumer("queue:orders", former=browser, mode="browse", held=None)
    assert again.bodies() == ["a"]
    assert len(driver.manager.attachments.by_key) == 0


def test_only_queues_can_be_browsed() -> None:
    with pytest.raises(InvalidDestination):
        session_of(server()).consumer("topic:news", mode="browse")


def test_a_browser_reads_cold_blocks() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    producer = session_of(driver).producer("queue:orders")
    for number in range(30):
        producer.send(str(number))
    browser = session_of(driver).consumer("queue:orders", mode="browse")
    assert browser.bodies() == [str(number) for number in range(30)]


# ---- replay


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ({"at": "earliest"}, ["0a", "0b", "1a", "1b", "2a", "2b"]),
        ({"at": "latest"}, []),
        (None, []),
        ({"offset": 3}, ["1b", "2a", "2b"]),
        ({"offset": 99}, []),
        ({"time_ms": 5_000}, ["1a", "1b", "2a", "2b"]),
        ({"time_ms": 10_001}, ["2a", "2b"]),
    ],
)
def test_replay_begins_where_it_is_told(start: dict[str, int] | None, expected: list[str]) -> None:
    driver = server()
    retained(driver)
    begin = now_ms(driver)
    session = session_of(driver)
    producer = session.producer("topic:news")
    for number in range(3):
        producer.send(f"{number}a", f"{number}b")
        driver.advance(10)
    if start is not None and "time_ms" in start:
        start = {"time_ms": begin + start["time_ms"]}
    reader = session.consumer("topic:news", mode="replay", start=start)
    assert reader.bodies() == expected
    producer.send("new")
    assert reader.bodies() == ["new"], "and goes on with what comes"


def test_a_replay_takes_nothing_and_everybody_has_his_own() -> None:
    driver = server()
    retained(driver)
    session = session_of(driver)
    session.producer("topic:news").send("a", "b")
    for _ in range(2):
        assert session.consumer("topic:news", mode="replay", start={"at": "earliest"}).bodies() == ["a", "b"]


def test_replay_survives_a_crash_and_needs_no_subscription() -> None:
    driver = server()
    retained(driver)
    session_of(driver).producer("topic:news").send("a", "b")
    driver = driver.crash()
    reader = session_of(driver).consumer("topic:news", mode="replay", start={"at": "earliest"})
    assert reader.bodies() == ["a", "b"]


def test_a_replay_shows_only_what_is_durable() -> None:
    driver = server()
    retained(driver)
    session = session_of(driver)
    producer = session.producer("topic:news")
    reader = session.consumer("topic:news", mode="replay", start={"at": "earliest"})
    with driver.slow_disk():
        producer.send("a")
        assert reader.take() == []
    assert reader.bodies() == ["a"]


def test_a_replay_has_a_selector_and_credit() -> None:
    driver = server()
    retained(driver)
    session = session_of(driver)
    session.producer("topic:news").send(*"abcd", properties={"n": [1, 2, 3, 4]})
    reader = session.consumer("topic:news", mode="replay", start={"at": "earliest"}, selector="n <> 2", messages=2)
    assert reader.bodies() == ["a", "c"]
    reader.grant(5)
    assert reader.bodies() == ["d"]


def test_a_replay_goes_on_where_the_client_lost_the_connection() -> None:
    driver = server()
    retained(driver)
    client = driver.connect()
    session = client.session()
    session.producer("topic:news").send(*"abcd")
    reader = session.consumer("topic:news", mode="replay", start={"at": "earliest"})
    assert len(reader.take()) == 4
    driver.hang_up(client)
    again = driver.connect(resume=client).session(1, session)
    resumed = again.consumer("topic:news", former=reader, mode="replay", start={"offset": 2}, held=None)
    assert resumed.bodies() == ["c", "d"], "what was sent and did not arrive comes again"


def test_only_a_retained_topic_can_be_replayed() -> None:
    session = session_of(server())
    session.producer("topic:plain")
    with pytest.raises(InvalidDestination, match="not retained"):
        session.consumer("topic:plain", mode="replay")


def test_a_replay_does_not_create_the_topic_it_was_mistyped_for() -> None:
    driver = server()
    with pytest.raises(InvalidDestination, match="There is no topic 'nwes'"):
        session_of(driver).consumer("topic:nwes", mode="replay")
    assert not driver.manager.directory.has("nwes")


def test_a_replay_reads_what_has_moved_to_the_topics_own_files() -> None:
    driver = Driver(Setup(segment_bytes=16 * 1024))
    retained(driver)
    session = session_of(driver)
    producer = session.producer("topic:news")
    producer.send("delayed", due=now_ms(driver) + 1_000)
    for number in range(60):
        producer.send(b"%03d" % number + b"x" * 1_000)
        if number == 30:
            driver.advance(2)
    assert state_of(driver, "topic:news").stream_end > 40
    driver.manager.ledger.cache._blocks.clear()
    expected = [f"{number:03}" for number in range(31)] + ["del"] + [f"{number:03}" for number in range(31, 60)]
    for _ in range(2):
        reader = session_of(driver).consumer("topic:news", mode="replay", start={"at": "earliest"})
        assert [body[:3] for body in reader.bodies()] == expected
        driver = driver.crash()
