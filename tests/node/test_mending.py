"""Damage on the disk of a server by itself: an error of those who read just that, in words; all else goes on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.message_manager.dialogue import NOTHING_CACHED, session_of, state_of

from tocsin.journal import reader
from tocsin.journal.jobs import Location, SegmentRewritten
from tocsin.journal.record import HEADER_BYTES
from tocsin.message_manager.machine import Settings
from tocsin.model.errors import DataDamaged, from_code
from tocsin.model.limits import KIB, MEND_RETRY_SECONDS, SCRUB_DELAY_SECONDS, SCRUB_EVERY_SECONDS
from tocsin.node.placing import locate
from tocsin.node.workers import Done
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_session import ScriptedConsumer

NEWS, ORDERS = "topic:news", "queue:orders"
BATCHES, EACH = 40, 5
SMALL = Setup(segment_bytes=16 * KIB, manager=Settings(lease=1_000.0, cache_bytes=NOTHING_CACHED))


def filled(destination: str, *, retained: bool = False) -> Driver:
    """Batches over several segments; those of a retained topic are in its own files, but for the last."""
    driver = Driver(SMALL)
    client = driver.connect()
    client.request("destination.create", destination=destination, retained=retained)
    client.request("destination.create", destination="queue:other")
    producer = session_of(driver).producer(destination)
    for batch in range(BATCHES):
        producer.send(*[f"{batch * EACH + number:0300d}" for number in range(EACH)])
    driver.settle()
    return driver


def place(driver: Driver, destination: str, offset: int) -> Location:
    state = state_of(driver, destination)
    row = state.log.row_at(offset)
    where = locate(driver.storage, state.id, state.log.lsns[row - state.log.base], state.log.span(row)[0])
    assert where is not None
    return where


def damage(driver: Driver, destination: str, offset: int, at: int = 500) -> Location:
    """Turns a bit of the batch with the offset; `at` counts from the start of its record."""
    where = place(driver, destination, offset)
    driver.disk.flip(where.file, 8 * (where.position + at) + 3)
    return where


def error_of(found: ScriptedConsumer) -> DataDamaged:
    assert found.ended is not None
    error = from_code(found.ended["code"], found.ended["text"])
    assert isinstance(error, DataDamaged)
    return error


def offsets(found: ScriptedConsumer) -> list[int]:
    return [message.offset for message in found.take()]


def others_go_on(driver: Driver) -> None:
    session = session_of(driver)
    session.producer("queue:other").send("still here")
    assert [message.body for message in session.consumer("queue:other").take()] == [b"still here"]


def whole() -> list[int]:
    return list(range(BATCHES * EACH))


@pytest.mark.parametrize("start", [{"offset": 0}, {"offset": 0, "end": BATCHES * EACH}])
def test_a_reader_is_told_what_is_damaged_and_goes_on_behind_it(start: dict[str, Any]) -> None:
    driver = filled(NEWS, retained=True)
    where = damage(driver, NEWS, 52)
    assert where.file.startswith("streams/")
    found = session_of(driver).consumer(NEWS, mode="replay", start=start)
    assert offsets(found) == list(range(50))
    text = str(error_of(found))
    assert text.startswith("Offsets 50 to 55 of topic:news cannot be read, and no other copy was found: ")
    assert where.file in text and text.endswith("All others can: go on at offset 55.")
    behind = session_of(driver).consumer(NEWS, mode="replay", start=start | {"offset": 55})
    assert offsets(behind) == whole()[55:]
    others_go_on(driver)
    assert driver.show(NEWS)["damaged"] == [[50, 55]]


def test_a_range_may_be_read_without_what_is_damaged() -> None:
    driver = filled(NEWS, retained=True)
    damage(driver, NEWS, 52)
    wanted = {"offset": 0, "end": BATCHES * EACH, "skip_removed": True}
    found = session_of(driver).consumer(NEWS, mode="replay", start=wanted)
    assert offsets(found) == whole()[:50] + whole()[55:]
    assert found.ended == {"consumer": found.number, "end": True}


def test_a_consumer_of_a_queue_is_told_and_gets_all_the_rest() -> None:
    driver = filled(ORDERS)
    where = damage(driver, ORDERS, 52)
    assert where.file.startswith("journal/")
    found = session_of(driver).consumer(ORDERS)
    assert offsets(found) == whole()[:50] + whole()[55:]
    assert found.ended is not None and "end" not in found.ended
    assert "Offsets 50 to 55 of queue:orders" in str(error_of(found))
    others_go_on(driver)


def test_one_of_several_consumers_is_told_and_nothing_comes_twice() -> None:
    driver = filled(ORDERS)
    damage(driver, ORDERS, 52)
    first, second = (session_of(driver).consumer(ORDERS, messages=60) for _ in range(2))
    got = []
    for turn in range(10):
        for each in (first, second):
            messages = each.take()
            got += [message.offset for message in messages]
            each.ack(*messages)
            each.grant(60 * (turn + 2))
    assert sorted(got) == whole()[:50] + whole()[55:]
    assert [bool(each.ended) for each in (first, second)].count(True) == 1
    assert driver.show(ORDERS)["messages"] == 5, "what is damaged is still there"


def test_a_browser_is_told() -> None:
    driver = filled(ORDERS)
    damage(driver, ORDERS, 52)
    found = session_of(driver).consumer(ORDERS, mode="browse")
    assert offsets(found) == whole()[:50]
    assert found.ended is not None and found.ended["end"]
    assert "go on at offset 55" in str(error_of(found))


def test_damaged_messages_can_be_purged() -> None:
    driver = filled(ORDERS)
    damage(driver, ORDERS, 52)
    consumer = session_of(driver).consumer(ORDERS)
    consumer.ack(*consumer.take())
    assert driver.connect().request("destination.purge", destination=ORDERS)["messages"] == EACH
    assert driver.show(ORDERS)["messages"] == 0


def test_a_durable_subscription_goes_on() -> None:
    driver = filled(NEWS, retained=True)
    damage(driver, NEWS, 102)
    session = session_of(driver, "client")
    found = session.consumer(NEWS, subscription="all", durable=True, start={"offset": 0})
    assert offsets(found) == whole()[:100] + whole()[105:]
    assert "Offsets 100 to 105 of topic:news" in str(error_of(found))


@pytest.mark.parametrize("destination", [NEWS, ORDERS])
@pytest.mark.parametrize("at", [1, 5, 9, 17, 22, 25, 29, 32, 36])
def test_a_byte_of_a_records_header_is_mended_by_what_is_behind_it(destination: str, at: int) -> None:
    driver = filled(destination, retained=destination == NEWS)
    where = place(driver, destination, 52)
    before = driver.disk.open(where.file).read(where.position, HEADER_BYTES)
    damage(driver, destination, 52, at=at)
    found = session_of(driver).consumer(destination, mode="replay", start={"offset": 0, "end": BATCHES * EACH})
    assert offsets(found) == whole() and found.ended == {"consumer": found.number, "end": True}
    assert driver.disk.open(where.file).read(where.position, HEADER_BYTES) == before
    assert driver.storage.mending.mended == 1 and not driver.storage.mending.lost


@pytest.mark.parametrize("destination", [NEWS, ORDERS])
def test_a_files_header_is_mended(destination: str) -> None:
    driver = filled(destination, retained=destination == NEWS)
    where = place(driver, destination, 52)
    driver.disk.flip(where.file, 8 * 50)
    found = session_of(driver).consumer(destination, mode="replay", start={"offset": 0, "end": BATCHES * EACH})
    assert offsets(found) == whole()
    assert not driver.storage.mending.lost


def test_what_can_be_read_again_is_delivered_after_all() -> None:
    driver = filled(ORDERS)
    damage(driver, ORDERS, 52)
    found = session_of(driver).consumer(ORDERS)
    messages = found.take()
    found.ack(*messages)
    assert len(messages) == BATCHES * EACH - EACH
    damage(driver, ORDERS, 52)  # The same bit once more: it is as it was.
    driver.advance(MEND_RETRY_SECONDS + 1)
    assert offsets(found) == [50, 51, 52, 53, 54]
    assert not driver.storage.mending.lost and driver.show(ORDERS)["damaged"] == []


def test_a_file_that_is_gone_is_an_error_of_its_readers() -> None:
    driver = filled(NEWS, retained=True)
    where = place(driver, NEWS, 52)
    driver.disk.remove(where.file)
    found = session_of(driver).consumer(NEWS, mode="replay", start={"offset": 0})
    assert 50 not in offsets(found) and "cannot be read" in str(error_of(found))
    others_go_on(driver)


@pytest.mark.parametrize(("destination", "folder"), [(NEWS, "streams/"), (ORDERS, "journal/")])
def test_damage_is_found_before_anybody_reads(destination: str, folder: str) -> None:
    driver = filled(destination, retained=destination == NEWS)
    assert damage(driver, destination, 52).file.startswith(folder)
    driver.advance(SCRUB_DELAY_SECONDS - 1)
    assert driver.storage.mending.found == 0
    driver.advance(5)
    assert driver.storage.mending.found == 1
    assert driver.show(destination)["damaged"] == [[50, 55]]


def test_everything_is_looked_through_once_a_day() -> None:
    driver = filled(NEWS, retained=True)
    driver.advance(SCRUB_DELAY_SECONDS + 5)
    assert driver.storage.scrub.rounds == 1
    driver.advance(SCRUB_EVERY_SECONDS / 2)
    damage(driver, NEWS, 52)
    assert (driver.storage.scrub.rounds, driver.storage.mending.found) == (1, 0)
    driver.advance(SCRUB_EVERY_SECONDS / 2 + 100)
    assert (driver.storage.scrub.rounds, driver.storage.mending.found) == (2, 1)


def test_a_block_that_is_damaged_before_it_moves_stays_in_the_journal_and_stops_nobody() -> None:
    driver = Driver(SMALL)
    driver.connect().request("destination.create", destination=NEWS, retained=True)
    driver.connect().request("destination.create", destination="queue:other")
    producer = session_of(driver).producer(NEWS)
    for batch in range(BATCHES):
        producer.send(*[f"{batch * EACH + number:0300d}" for number in range(EACH)])
        if batch == 2:
            assert damage(driver, NEWS, 12).file == "journal/00000000000000000001.seg"
    found = session_of(driver).consumer(NEWS, mode="replay", start={"offset": 0})
    assert offsets(found) == list(range(10)) and "Offsets 10 to 15 of topic:news" in str(error_of(found))
    behind = session_of(driver).consumer(NEWS, mode="replay", start={"offset": 15})
    assert offsets(behind) == whole()[15:]
    assert state_of(driver, NEWS).stream_end == 10
    others_go_on(driver)
    again = driver.stop()
    behind = session_of(again).consumer(NEWS, mode="replay", start={"offset": 15})
    assert offsets(behind) == whole()[15:]


def streams_of(driver: Driver) -> list[str]:
    folder = f"streams/{state_of(driver, NEWS).id}"
    return [f"{folder}/{name}" for name in driver.disk.list(folder) if name.endswith(".seg")]


def readable(driver: Driver) -> list[int]:
    """What a reader gets that goes on behind each damage, as it is told to."""
    found: list[int] = []
    start = 0
    while True:
        reader = session_of(driver).consumer(NEWS, mode="replay", start={"offset": start, "end": BATCHES * EACH})
        found += offsets(reader)
        assert reader.ended is not None
        if "code" not in reader.ended:
            return found
        start = int(str(error_of(reader)).rpartition("offset ")[2].rstrip("."))


@pytest.mark.parametrize("which", [0, -1])
def test_a_server_starts_whatever_byte_of_a_topics_file_is_damaged(which: int) -> None:
    driver = filled(NEWS, retained=True).stop()
    name = streams_of(driver)[which]
    for index in driver.disk.list(name.rpartition("/")[0]):
        if index.endswith(".idx"):
            driver.disk.remove(f"{name.rpartition('/')[0]}/{index}")  # So that the file itself is read at the start.
    size = driver.disk.open(name).size()
    chosen = [*range(130), *range(130, size - 200, 997), *range(size - 200, size)]
    for byte in chosen:
        damaged = driver.disk.crash(Random(0))
        damaged.flip(name, 8 * byte + byte % 8)
        after = Driver(SMALL, damaged, driver.clock)
        missing = sorted(set(whole()) - set(readable(after)))
        assert len(missing) in (0, EACH), f"byte {byte} of {size}"
        assert missing == list(range(missing[0], missing[0] + EACH)) if missing else True
        after.storage.close()


def test_a_drain_is_told_and_may_read_the_rest() -> None:
    driver = filled(ORDERS)
    damage(driver, ORDERS, 52)
    client = driver.connect()
    taken = client.request("drain.take", destination=ORDERS, drain="d", after=0, messages=100)
    wanted = {"offset": 0, "end": 100, "drain": "d", "take": taken["take"]}
    found = session_of(driver).consumer(ORDERS, mode="replay", start=wanted)
    assert offsets(found) == whole()[:50] and "Offsets 50 to 55 of queue:orders" in str(error_of(found))
    rest = session_of(driver).consumer(ORDERS, mode="replay", start=wanted | {"skip_removed": True})
    assert offsets(rest) == whole()[:50] + whole()[55:100]


def test_what_cannot_be_read_cannot_be_moved_to_the_dead_and_stops_nobody() -> None:
    driver = filled(ORDERS)
    consumer = session_of(driver).consumer(ORDERS)
    messages = consumer.take()
    damage(driver, ORDERS, 52)
    limit = driver.show(ORDERS)["redelivery_limit"]
    for _ in range(limit):
        consumer.nack(*messages[50:60])
        driver.settle()
        consumer.take()
    assert driver.show("queue:_DMQ")["messages"] == 5
    damage(driver, ORDERS, 52)
    driver.advance(MEND_RETRY_SECONDS + 1)
    assert offsets(consumer) == [50, 51, 52, 53, 54]


def test_messages_that_cannot_be_read_do_not_hold_up_expiry() -> None:
    driver = Driver(SMALL)
    producer = session_of(driver).producer(ORDERS)
    for batch in range(BATCHES):
        expiry = int(driver.clock.wall() * 1000) + 10_000
        producer.send(*[f"{batch * EACH + number:0300d}" for number in range(EACH)], expiry=expiry)
    damage(driver, ORDERS, 52)
    driver.advance(15)
    assert driver.show(ORDERS)["messages"] == EACH


@pytest.mark.parametrize("kept", [3, 7])
def test_a_compacted_segment_is_looked_through(kept: int) -> None:
    driver = filled(ORDERS)
    consumer = session_of(driver).consumer(ORDERS)
    messages = consumer.take()
    consumer.ack(*[message for message in messages if message.offset // EACH % kept])
    for _ in range(2):
        driver.snapshot()
        session_of(driver).producer("queue:other").send("moves the end on")
    driver.advance(1)
    where = damage(driver, ORDERS, 21 * EACH)
    assert where.generation == 1
    driver.advance(SCRUB_DELAY_SECONDS + 5)
    assert driver.show(ORDERS)["damaged"] == [[21 * EACH, 22 * EACH]]


def test_what_is_being_compacted_is_not_taken_for_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "READ_OPEN_FILES_MAX", 1)
    driver = filled(ORDERS)
    session = session_of(driver)
    consumer = session.consumer(ORDERS)
    messages = consumer.take()
    consumer.ack(*[message for message in messages if message.offset % (4 * EACH) >= EACH])
    consumer.close()
    late: list[tuple[Done, Any]] = []

    def upkeep(job: Callable[[], Any], done: Done) -> None:
        """The thread has compacted a segment, and the loop does not hear of it yet, nor of what comes behind it."""
        result = job()
        if late or isinstance(result, SegmentRewritten):
            late.append((done, result))
        else:
            driver.workers.sync(lambda: result, done)

    monkeypatch.setattr(driver.workers, "upkeep", upkeep)
    while not late:
        session.producer("queue:other").send("on")
        driver.snapshot()
    found = session.consumer(ORDERS)
    monkeypatch.undo()
    for done, result in late:
        done(result)
    driver.settle()
    assert offsets(found) == [offset for offset in whole() if offset % (4 * EACH) < EACH]
    assert driver.storage.mending.found == 0
