"""Reading ranges of offsets: whole blocks, in order, to an end."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from tests.message_manager.dialogue import NOTHING_CACHED, ends, now_ms, server, session_of, state_of
from tests.message_manager.stage import CM1, CONNECTION, SESSION, Stage, delivered

from tocsin.cluster.commands import ConsumerEnded, Delivery, OpenConsumer
from tocsin.message_manager.cache import BlockCache
from tocsin.message_manager.ledger import ReadBlocks
from tocsin.message_manager.machine import Settings
from tocsin.model.batch import Block, Column, DeliveryMode
from tocsin.model.destination import parse_destination
from tocsin.model.errors import IllegalState, InvalidDestination, ProtocolError, from_code
from tocsin.model.limits import KIB, RANGE_READS
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_session import ScriptedConsumer
from tocsin.wire.frames import Deliver, Frame, read_deliver

NEWS = "topic:news"


def filled(batches: int = 4, each: int = 3, **options: int) -> Driver:
    """A retained topic with batches of messages that say which offset they have."""
    driver = server(**options)
    driver.connect().request("destination.create", destination=NEWS, retained=True)
    producer = session_of(driver).producer(NEWS)
    for batch in range(batches):
        producer.send(*[str(batch * each + number) for number in range(each)])
    return driver


def reader(driver: Driver, start: int, end: int, *, destination: str = NEWS, **more: Any) -> ScriptedConsumer:
    terms: dict[str, Any] = {name: more.pop(name) for name in ("selector", "messages", "size") if name in more}
    wanted = {"offset": start, "end": end, **more}
    return session_of(driver).consumer(destination, mode="replay", start=wanted, **terms)


def offsets(found: ScriptedConsumer) -> list[int]:
    return [message.offset for message in found.take()]


@pytest.mark.parametrize(("start", "end"), [(0, 12), (0, 3), (3, 9), (4, 5), (2, 11), (11, 12), (5, 5), (12, 12)])
def test_a_range_is_read_exactly_and_then_it_ends(start: int, end: int) -> None:
    found = reader(filled(), start, end)
    assert offsets(found) == list(range(start, end))
    assert found.ended == {"consumer": found.number, "end": True}


def test_one_delivery_for_each_block_and_the_block_as_it_was_stored() -> None:
    driver = filled()
    found = reader(driver, 1, 8)
    spans = [(frame.offset, [each[:2] for each in frame.ranges]) for frame in map(deliver, found.deliveries)]
    assert spans == [(0, [(1, 3)]), (3, [(0, 3)]), (6, [(0, 2)])]
    stored = driver.manager.ledger.block(state_of(driver, NEWS).log.lsns[1])
    assert stored is not None and bytes(deliver(found.deliveries[1]).block) == bytes(stored.data)


def deliver(frame: Frame) -> Deliver:
    return read_deliver(frame.payload)


def test_a_range_that_ends_later_than_the_topic_waits_for_the_rest() -> None:
    driver = filled(batches=2)
    found = reader(driver, 4, 8)
    assert offsets(found) == [4, 5] and not found.ended
    session_of(driver).producer(NEWS).send("6", "7", "8")
    assert offsets(found) == [6, 7] and found.ended


def test_only_what_is_durable_is_read() -> None:
    driver = filled(batches=1)
    producer = session_of(driver).producer(NEWS)
    found = reader(driver, 0, 4)
    with driver.slow_disk():
        producer.send("3")
        assert offsets(found) == [0, 1, 2] and not found.ended
    assert offsets(found) == [3] and found.ended


def test_credit_in_bytes_holds_a_reader_back_and_lets_it_go_on() -> None:
    driver = filled()
    found = reader(driver, 0, 12, size=1)
    assert offsets(found) == [0, 1, 2], "the last block may go beyond the credit"
    found.grant(1 << 40, size=len(deliver(found.deliveries[0]).block) + 1)
    assert offsets(found) == [3, 4, 5] and not found.ended
    found.grant(1 << 40)
    assert offsets(found) == list(range(6, 12)) and found.ended


def test_credit_in_messages_may_cut_a_block() -> None:
    found = reader(filled(), 0, 12, messages=4)
    assert offsets(found) == [0, 1, 2, 3]
    found.grant(12)
    assert offsets(found) == list(range(4, 12)) and found.ended


def test_a_selector_picks_within_blocks_and_the_range_ends_all_the_same() -> None:
    driver = server()
    driver.connect().request("destination.create", destination=NEWS, retained=True)
    producer = session_of(driver).producer(NEWS)
    for batch in range(3):
        producer.send(*"abcd", properties={"n": [batch * 4 + number for number in range(4)]})
    found = reader(driver, 1, 12, selector="n = 0 OR n = 2 OR n = 3 OR n = 9")
    assert offsets(found) == [2, 3, 9] and found.ended
    nothing = reader(driver, 0, 12, selector="n > 100")
    assert offsets(nothing) == [] and nothing.ended


def test_columns_that_are_not_wanted_are_left_out_when_that_pays() -> None:
    driver = server()
    driver.connect().request("destination.create", destination=NEWS, retained=True)
    session_of(driver).producer(NEWS).send("a" * 5_000, "b", properties={"n": [1, 2]})
    found = reader(driver, 0, 2, columns=["property:n"], selector="n = 2")
    assert [message.properties for message in found.take()] == [{"n": 2}]
    block = Block(deliver(found.deliveries[0]).block)
    assert not block.has_column(Column.BODY) and block.length < 1_000
    whole = reader(driver, 0, 2, columns=["body"])
    assert [message.body for message in whole.take()] == [b"a" * 5_000, b"b"]


def test_a_range_of_many_cold_blocks_is_read_in_large_pieces() -> None:
    driver = Driver(Setup(segment_bytes=64 * KIB))
    driver.connect().request("destination.create", destination=NEWS, retained=True)
    producer = session_of(driver).producer(NEWS)
    for number in range(200):
        producer.send(b"%04d" % number + b"x" * 1_000)
    state = state_of(driver, NEWS)
    assert state.stream_end > 100
    for _ in range(2):
        driver.manager.ledger.cache._blocks.clear()
        found = reader(driver, 10, 190)
        assert offsets(found) == list(range(10, 190)) and found.ended
        driver = driver.crash()


def test_several_pieces_are_on_their_way_while_one_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Settings(cache_bytes=240 * KIB))
    stage.ask(CM1, "destination.create", destination=NEWS, retained=True)
    number = stage.open_producer(CM1, destination=NEWS)
    for sequence in range(1, 101):
        stage.publish(CM1, number, sequence, b"x" * 2_000)
    stage.manager.ledger.cache = BlockCache(240 * KIB)
    asked: list[list[int]] = []
    ahead: list[int] = []

    def begun(read: ReadBlocks) -> None:
        asked.append(read.first_offsets)
        ahead.append(len(stage.state(NEWS).readers[0].pieces))
        begin(read)

    begin = stage.storage._reads.begin
    monkeypatch.setattr(stage.storage._reads, "begin", begun)
    replies = stage.tell(CM1, opening(stage, 0, 100))
    assert delivered(replies) == [(offset, offset + 1, 1) for offset in range(100)]
    assert isinstance(replies[-1], ConsumerEnded)
    assert max(ahead) == RANGE_READS
    assert list(chain.from_iterable(asked)) == list(range(100)), "each block is read once"
    assert len(asked) < 20


def opening(stage: Stage, start: int, end: int) -> OpenConsumer:
    wanted = {"offset": start, "end": end}
    return OpenConsumer(
        stage.number(), SESSION, 9, parse_destination(NEWS), CONNECTION, None, "replay", start=wanted,
        messages=1 << 40, bytes=1 << 40,
    )  # fmt: skip


def test_readers_take_turns_when_there_is_more_than_one_run_can_send() -> None:
    stage = Stage()
    stage.ask(CM1, "destination.create", destination=NEWS, retained=True)
    number = stage.open_producer(CM1, destination=NEWS)
    for sequence in range(1, 601):
        stage.publish(CM1, number, sequence, b"x")
    for consumer in (1, 2):
        command = replace(opening(stage, 0, 600), consumer=consumer)
        stage.manager.handle(CM1, command, stage.clock.now(), stage.clock.wall())
    firsts: dict[int, int] = {}
    while stage.manager.run():
        for _, reply in stage.manager.take_replies():
            if isinstance(reply, Delivery):
                firsts.setdefault(reply.key[1], len(firsts))
            elif isinstance(reply, ConsumerEnded):
                assert len(firsts) == 2, "the second has begun before the first has ended"
    assert sorted(firsts) == [1, 2]


def test_a_cache_that_holds_nothing_does_not_stop_a_reader() -> None:
    found = reader(filled(batches=30, cache_bytes=NOTHING_CACHED), 5, 80)
    assert offsets(found) == list(range(5, 80)) and found.ended


def test_several_readers_of_one_topic_do_not_disturb_each_other() -> None:
    driver = filled(batches=40, cache_bytes=8 * KIB)
    parts = [reader(driver, start, start + 30) for start in range(0, 120, 30)]
    assert [offsets(part) for part in parts] == [list(range(start, start + 30)) for start in range(0, 120, 30)]
    assert all(part.ended for part in parts)


def test_a_reader_goes_on_behind_the_last_block_that_arrived() -> None:
    driver = filled()
    client = driver.connect()
    session = client.session()
    first = session.consumer(NEWS, mode="replay", start={"offset": 1, "end": 11}, size=1)
    assert offsets(first) == [1, 2]
    driver.hang_up(client)
    again = driver.connect(resume=client).session(1, session)
    start = {"offset": 3, "end": 11}
    resumed = again.consumer(NEWS, former=first, mode="replay", start=start, held=None)
    assert offsets(resumed) == list(range(3, 11)) and resumed.ended


def test_what_retention_removed_is_an_error_or_is_passed_over() -> None:
    driver = filled()
    driver.connect().request("destination.purge", destination=NEWS)
    session_of(driver).producer(NEWS).send("12", "13")
    lost = reader(driver, 4, 14)
    assert offsets(lost) == [] and lost.ended is not None
    error = from_code(lost.ended["code"], lost.ended["text"])
    assert type(error).__name__ == "DataLost" and "Offsets 4 to 12 of topic:news" in str(error)
    skipping = reader(driver, 4, 14, skip_removed=True)
    assert offsets(skipping) == [12, 13] and skipping.ended == {"consumer": skipping.number, "end": True}
    gone = reader(driver, 4, 10, skip_removed=True)
    assert offsets(gone) == [] and gone.ended == {"consumer": gone.number, "end": True}


def test_of_a_queue_what_is_there_is_shown_and_not_taken() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("0", "1", "2", expiry=[0, 0, now_ms(driver) + 1_000])
    producer.send("3", "4")
    producer.send("5")
    messages = consumer.take()
    consumer.ack(messages[0], messages[3], messages[4])
    consumer.release(messages[2])
    driver.clock.advance(2)
    found = reader(driver, 0, 6, destination="queue:orders")
    assert offsets(found) == [1, 5] and found.ended
    assert driver.show("queue:orders")["in_flight"] >= 2


def test_a_queue_whose_front_is_finished_is_read_from_what_is_left() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    producer, consumer = ends(driver)
    for number in range(10):
        producer.send(str(number))
    consumer.ack(*[message for message in consumer.take() if message.offset != 7])
    found = reader(driver, 0, 10, destination="queue:orders")
    assert offsets(found) == [7] and found.ended


def test_what_can_not_be_read_is_refused() -> None:
    driver = filled()
    session_of(driver).producer("topic:plain")
    with pytest.raises(InvalidDestination, match="not retained"):
        reader(driver, 0, 1, destination="topic:plain")
    with pytest.raises(InvalidDestination, match="There is no topic"):
        reader(driver, 0, 1, destination="topic:nobody")
    with pytest.raises(ProtocolError, match="before it begins"):
        reader(driver, 3, 1)
    with pytest.raises(IllegalState, match="There is no column"):
        reader(driver, 0, 1, columns=["boddy"])


def test_a_reader_never_sees_an_offset_that_a_crash_gives_to_another_message() -> None:
    driver = filled(batches=1, each=2)
    producer = session_of(driver).producer(NEWS)
    live, found = session_of(driver).consumer(NEWS), reader(driver, 0, 4)
    assert found.bodies() == ["0", "1"]
    with driver.slow_disk():
        producer.send("lost", "too", mode=DeliveryMode.NON_PERSISTENT)
        assert producer.confirmed == 2, "whoever sends need not wait for the disk"
        assert (found.bodies(), live.bodies()) == ([], [])
        after = driver.crash()
    session_of(after).producer(NEWS).send("2", "3")
    assert reader(after, 2, 4).bodies() == ["2", "3"], "the reader goes on at offset 2"


def test_a_log_shows_messages_that_are_not_persistent_once_they_are_on_disk() -> None:
    driver = filled(batches=1, each=2)
    session_of(driver).producer(NEWS).send("2", "3", mode=DeliveryMode.NON_PERSISTENT)
    assert reader(driver, 0, 4).bodies() == ["0", "1", "2", "3"]
    assert reader(driver.crash(), 0, 4).bodies() == ["0", "1", "2", "3"]
