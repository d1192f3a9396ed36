"""Deduplication (D1): stored once however often it is sent, in order, without gaps."""

from __future__ import annotations

import pytest
from tests.message_manager.dialogue import drain, ends, server, session_of, state_of

from tocsin.message_manager.producers import ProducerRow, Producers, Verdict
from tocsin.model.batch import BatchHeader, Block, DeliveryMode, encode_block
from tocsin.model.destination import Kind
from tocsin.model.errors import IllegalState, ProducerExpired, StorageFull
from tocsin.model.limits import PRODUCER_SILENCE_SECONDS

ME = b"m" * 16


def block(first: int, count: int = 1, unconfirmed: int = 1, mode: DeliveryMode = DeliveryMode.PERSISTENT) -> Block:
    header = BatchHeader(
        "orders", Kind.QUEUE, count, producer_id=ME, first_sequence=first, unconfirmed_from=unconfirmed,
        delivery_mode=mode,
    )  # fmt: skip
    return Block(encode_block(header, []))


@pytest.mark.parametrize(
    ("sent", "verdict"),
    [
        (block(6), Verdict.NEW),
        (block(7), Verdict.GAP),
        (block(7, unconfirmed=7), Verdict.NEW),
        (block(5), Verdict.DUPLICATE),
        (block(1, 5), Verdict.DUPLICATE),
        (block(4, 5), Verdict.GAP),
        (block(4, 5, unconfirmed=4), Verdict.GAP),
    ],
)
def test_a_known_producer_continues_repeats_or_leaves_a_gap(sent: Block, verdict: Verdict) -> None:
    producers = Producers()
    producers.stored(block(1, 5), 0.0, 1)
    assert producers.judge(sent) is verdict


@pytest.mark.parametrize(
    ("sent", "verdict"),
    [
        (block(1), Verdict.NEW),
        (block(9, unconfirmed=9), Verdict.NEW),
        (block(9, unconfirmed=3), Verdict.EXPIRED),
        (block(9), Verdict.GAP),
    ],
)
def test_an_unknown_producer_begins_or_has_been_forgotten(sent: Block, verdict: Verdict) -> None:
    assert Producers().judge(sent) is verdict


def test_non_persistent_batches_leave_the_record_to_wait_for_alone() -> None:
    producers = Producers()
    producers.stored(block(1), 0.0, 7)
    producers.stored(block(2, mode=DeliveryMode.NON_PERSISTENT), 0.0, 8)
    assert (producers.rows[ME].last, producers.rows[ME].lsn) == (2, 7)


def test_silence_is_counted_from_the_last_batch() -> None:
    producers = Producers()
    producers.stored(block(1), 0.0, 1)
    assert producers.silent(PRODUCER_SILENCE_SECONDS - 1) == []
    assert producers.silent(PRODUCER_SILENCE_SECONDS) == [ME]
    producers.stored(block(2), 100.0, 2)
    assert producers.silent(PRODUCER_SILENCE_SECONDS) == []


def test_the_most_silent_row_gives_way_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.producers.PRODUCER_ROWS_MAX", 1)
    producers = Producers()
    producers.rows[b"o" * 16] = ProducerRow(1, 0, 0.0, 1)
    producers.stored(block(1), 5.0, 2)
    assert list(producers.rows) == [ME]


# ---- dialogues


def test_a_block_that_is_sent_again_is_confirmed_again_and_stored_once() -> None:
    driver = server()
    producer, consumer = ends(driver)
    data = producer.block([b"one", b"two"])
    for _ in range(3):
        producer.confirmed = 0
        producer.resend(data)
        assert producer.confirmed == 2
    assert consumer.bodies() == ["one", "two"]


def test_a_duplicate_is_not_confirmed_before_the_first_is_durable() -> None:
    driver = server()
    producer, _ = ends(driver)
    with driver.slow_disk():
        data = producer.block([b"one"])
        producer.resend(data)
        producer.resend(data)
        assert producer.confirmed == 0
    assert producer.confirmed == 1
    assert driver.show("queue:orders")["messages"] == 1


def test_a_duplicate_is_known_after_a_crash() -> None:
    for snapshot in (False, True):
        driver = server()
        client = driver.connect()
        session = client.session()
        producer = session.producer("queue:orders")
        data = producer.block([b"one"])
        producer.resend(data)
        if snapshot:
            driver.snapshot()
        driver = driver.crash()
        again = driver.connect(resume=client).session(1, session)
        resumed = again.producer("queue:orders", producer)
        assert resumed.confirmed == 1, "producer.open says what is stored"
        resumed.confirmed = 0
        resumed.send("one", sequence=1)
        assert resumed.confirmed == 1
        assert drain(driver) == ["one"]


def test_a_gap_is_refused_until_the_missing_one_came() -> None:
    producer, consumer = ends(server())
    producer.send("three", sequence=3)
    ((first, last, error),) = producer.refused
    assert (first, last, type(error)) == (3, 3, IllegalState)
    producer.send("one", "two", sequence=1)
    producer.send("three", sequence=3)
    assert consumer.bodies() == ["one", "two", "three"]


def test_sequences_that_were_given_up_may_be_skipped() -> None:
    producer, consumer = ends(server())
    producer.send("one")
    producer.send("five", sequence=5, unconfirmed_from=5)
    assert producer.confirmed == 5
    assert consumer.bodies() == ["one", "five"]


def test_what_follows_a_refused_block_is_refused_for_the_same_reason() -> None:
    driver = server()
    producer, consumer = ends(driver)
    journal = driver.storage.recovered.journal
    producer.send("stored")
    journal.full = True
    first = producer.block([b"refused"], sequence=2, unconfirmed_from=2)
    second = producer.block([b"behind it"], sequence=3, unconfirmed_from=2)
    producer.resend(first)
    journal.full = False
    producer.resend(second)
    assert [type(error) for _, _, error in producer.refused] == [StorageFull, StorageFull]
    producer.resend(first)
    producer.resend(second)
    assert consumer.bodies() == ["stored", "refused", "behind it"]


def test_each_destination_counts_for_itself() -> None:
    driver = server()
    session = session_of(driver)
    one, two = session.producer("queue:one"), session.producer("queue:two")
    one.send("a", "b")
    two.send("c")
    assert (one.confirmed, two.confirmed) == (2, 1)


def test_a_silent_producer_is_forgotten_after_a_day_and_told_so() -> None:
    driver = server()
    producer, _ = ends(driver)
    producer.send("one")
    driver.advance(PRODUCER_SILENCE_SECONDS - 7200)
    assert len(state_of(driver).producers.rows) == 1
    driver.advance(10_000)
    assert state_of(driver).producers.rows == {}
    producer.send("three", sequence=3, unconfirmed_from=2)
    assert isinstance(producer.refused[0][2], ProducerExpired)
    assert state_of(driver.crash()).producers.rows == {}, "forgetting is durable"


def test_a_clean_close_forgets_the_row_and_a_lost_connection_does_not() -> None:
    driver = server()
    client = driver.connect()
    producer = client.session(1).producer("queue:orders")
    producer.send("one")
    producer.close()
    assert state_of(driver).producers.rows == {}
    session = client.session(2)
    session.producer("queue:orders").send("two")
    session.close()
    assert state_of(driver).producers.rows == {}
    client.session(3).producer("queue:orders").send("three")
    driver.hang_up(client)
    driver.advance(60)
    assert len(state_of(driver).producers.rows) == 1
