"""Deduplication (D1): stored once however often it is sent, in order, without gaps."""

from __future__ import annotations

import pytest
from tests.message_manager.dialogue import drain, ends, server, session_of, state_of

from tocsin.message_manager.producers import ProducerRow, Producers, Verdict
from tocsin.model.batch import BatchHeader, Block, DeliveryMode, encode_block
from tocsin.model.destination import Kind
from tocsin.model.errors import IllegalState, ProducerExpired, StorageFull
from tocsin.model.limits import PRODUCER_SILENCE_SECONDS
from tocsin.testing.driver import Driver

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
        (block(9, unconfirmed=3), Verdict.GAP),
        (block(9), Verdict.GAP),
    ],
)
def test_an_unknown_producer_begins_when_none_was_forgotten(sent: Block, verdict: Verdict) -> None:
    assert Producers().judge(sent) is verdict


@pytest.mark.parametrize(
    ("since", "verdict"), [(0, Verdict.EXPIRED), (11, Verdict.EXPIRED), (12, Verdict.NEW), (30, Verdict.NEW)]
)
def test_an_unknown_producer_is_new_if_it_was_opened_behind_all_that_is_forgotten(since: int, verdict: Verdict) -> None:
    producers = Producers()
    producers.stored(block(1), 0.0, 12)
    producers.forget(ME, used=12)
    if since:
        producers.open(ME, since, 0, lsn=40)
    assert producers.judge(block(1)) is verdict
    assert producers.judge(block(9, unconfirmed=9)) is verdict


def test_who_comes_from_another_group_is_not_ahead_of_the_log() -> None:
    producers = Producers()
    assert producers.open(ME, 1_000, 0, lsn=40) == 40
    assert producers.open(ME, 0, 0, lsn=41) == 41
    assert producers.open(ME, 17, 0, lsn=42) == 17


def test_what_was_confirmed_and_is_not_here_leaves_no_gap() -> None:
    producers = Producers()
    producers.open(ME, 1, 5, lsn=1)
    assert producers.judge(block(6, unconfirmed=1)) is Verdict.NEW
    assert producers.judge(block(7, unconfirmed=1)) is Verdict.GAP


def test_non_persistent_batches_leave_the_record_to_wait_for_alone() -> None:
    producers = Producers()
    producers.stored(block(1), 0.0, 7)
    producers.stored(block(2, mode=DeliveryMode.NON_PERSISTENT), 0.0, 8)
    assert (producers.rows[ME].last, producers.rows[ME].lsn) == (2, 7)


def silent(producers: Producers, now: float) -> list[bytes]:
    """At the second look: the first is when a primary begins, and gives everybody time to open again."""
    assert producers.silent(now - PRODUCER_SILENCE_SECONDS / 24, 9) == []
    return producers.silent(now, 9)


def test_silence_is_counted_from_the_last_batch() -> None:
    for last, now, found in ((0.0, -1, []), (0.0, 0, [ME]), (100.0, 0, [])):
        producers = Producers()
        producers.stored(block(1), last, 1)
        assert silent(producers, PRODUCER_SILENCE_SECONDS + now) == found


def test_a_producer_that_somebody_has_open_is_not_silent() -> None:
    producers = Producers()
    producers.stored(block(1), 0.0, 1)
    producers.open(ME, 0, 0, lsn=1)
    assert silent(producers, 2 * PRODUCER_SILENCE_SECONDS) == []


def test_the_most_silent_row_that_nobody_has_open_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.producers.PRODUCER_ROWS_MAX", 2)
    producers = Producers()
    one, two = b"1" * 16, b"2" * 16
    producers.rows |= {one: ProducerRow(1, 0, 0.0, 1), two: ProducerRow(1, 0, 0.0, 1)}
    assert producers.to_give_way(block(1)) == one
    producers.open(one, 0, 0, lsn=1)
    assert producers.to_give_way(block(1)) == two
    producers.open(two, 0, 0, lsn=1)
    assert producers.to_give_way(block(1)) == one
    del producers.rows[two]
    assert producers.to_give_way(block(1)) is None


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
    for restart in (Driver.snapshot, Driver.crash, None):
        driver = server()
        client = driver.connect()
        session = client.session()
        producer = session.producer("queue:orders")
        data = producer.block([b"one"])
        producer.resend(data)
        driver.hang_up(client)
        driver.advance(PRODUCER_SILENCE_SECONDS - 7200)
        assert len(state_of(driver).producers.rows) == 1
        driver.advance(4 * 3600)
        assert state_of(driver).producers.rows == {}
        if restart is not None:
            driver = restart(driver) or driver.crash()
        back = driver.connect(resume=client).session(1, session)
        with pytest.raises(ProducerExpired, match="queue:orders has forgotten this producer"):
            back.producer("queue:orders", producer)
        # Under another number it may go on: what it sends from now on is new.
        fresh = back.producer("queue:orders")
        fresh.send("two", sequence=1 << 40, unconfirmed_from=1 << 40)
        assert drain(driver) == ["one", "two"]


def test_a_block_of_a_forgotten_producer_is_refused_and_not_stored_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.producers.PRODUCER_ROWS_MAX", 1)
    driver = server()
    producer, consumer = ends(driver)
    data = producer.block([b"one"])
    producer.resend(data)
    other = session_of(driver).producer("queue:orders")
    other.send("other")
    producer.confirmed = 0
    producer.resend(data)
    ((first, last, error),) = producer.refused
    assert (first, last, type(error)) == (1, 1, ProducerExpired) and not producer.confirmed
    assert consumer.bodies() == ["one", "other"]


def test_a_producer_that_stays_open_is_never_forgotten_for_its_silence() -> None:
    driver = server()
    producer = session_of(driver).producer("queue:orders")
    data = producer.block([b"one"])
    producer.resend(data)
    driver.advance(3 * PRODUCER_SILENCE_SECONDS)
    producer.confirmed = 0
    producer.resend(data)
    producer.send("two", sequence=2)
    assert producer.confirmed == 2 and drain(driver) == ["one", "two"]


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
