"""FETCH and snapshot chunks: who gets what, and when nobody gets anything."""

from __future__ import annotations

from tests.replication.seat import Seat, entry

from tocsin.model.limits import FETCH_ENTRIES_MAX, REQUESTS_SERVED_MAX
from tocsin.replication.codec import decode, encode
from tocsin.replication.data_pool import DIGEST_BYTES, digest_of
from tocsin.replication.events import LogRead, ReadLog, ReadSnapshot, SnapshotRead
from tocsin.replication.messages import Fetch, Fetched, SnapshotChunk, SnapshotWanted
from tocsin.replication.serving import Serving


def test_records_are_read_and_sent() -> None:
    seat = Seat(1, 64, 64, 128)
    serving = Serving(seat.context)
    serving.fetch(2, Fetch(128, 2, 64))
    assert seat.taken() == [ReadLog(1, 2, 3)]
    seat.context.commit(1, 0)
    seat.taken()
    entries = seat.log.read(2, 3)
    serving.log_read(LogRead(1, entries))
    assert seat.sent() == [((2,), Fetched(128, 2, 64, 1, 0, entries))]


def test_only_for_the_epoch_that_was_promised() -> None:
    seat = Seat(1, 64, 128)
    serving = Serving(seat.context)
    for epoch in (64, 192):
        serving.fetch(2, Fetch(epoch, 1, 0))
    assert seat.taken() == []
    serving.fetch(2, Fetch(128, 1, 0))
    (read,) = seat.taken()
    assert isinstance(read, ReadLog)
    seat.log.promise(192)
    serving.log_read(LogRead(read.request, seat.log.read(1, 2)))
    assert seat.taken() == [], "another epoch began while it was read"


def test_at_the_end_the_answer_is_empty_and_says_that_it_matches() -> None:
    seat = Seat(1, 64, 128)
    Serving(seat.context).fetch(2, Fetch(128, 3, 128))
    assert seat.messages() == [Fetched(128, 3, 128, 0, 0, ())]


def test_where_the_logs_disagree_it_begins_further_back() -> None:
    seat = Seat(1, 64, 64, 128, 128)
    serving = Serving(seat.context)
    serving.fetch(2, Fetch(128, 5, 65))
    assert seat.taken() == [ReadLog(1, 3, 4)]
    serving.fetch(2, Fetch(128, 9, 128))
    assert seat.messages() == [Fetched(128, 5, 128, 0, 0, ())]


def test_records_that_are_in_a_snapshot_only() -> None:
    seat = Seat(1, 64, 64, 64)
    seat.log.save(seat.log.saved._replace(lsn=2, epoch=64), keep=0)
    Serving(seat.context).fetch(2, Fetch(64, 1, 0))
    (answer,) = seat.messages()
    assert isinstance(answer, Fetched)
    assert (answer.entries, answer.first, answer.base) == ((), 2, 2)


def test_one_answer_is_bounded() -> None:
    seat = Seat(1, *[64] * (FETCH_ENTRIES_MAX + 10))
    Serving(seat.context).fetch(2, Fetch(64, 1, 0))
    assert seat.taken() == [ReadLog(1, 1, FETCH_ENTRIES_MAX)]


def test_requests_that_wait_are_bounded() -> None:
    seat = Seat(1, 64)
    serving = Serving(seat.context)
    for _ in range(REQUESTS_SERVED_MAX + 5):
        serving.fetch(2, Fetch(64, 1, 0))
    seat.taken()
    serving.log_read(LogRead(1, (entry(64),)))
    assert seat.taken() == [], "the oldest is forgotten"
    serving.log_read(LogRead(REQUESTS_SERVED_MAX + 5, (entry(64),)))
    assert len(seat.taken()) == 1


def test_a_chunk_is_sent_with_its_digest() -> None:
    seat = Seat(1, 64)
    serving = Serving(seat.context)
    serving.snapshot_wanted(3, SnapshotWanted(0, 2))
    assert seat.taken() == [ReadSnapshot(1, 0, 2)]
    serving.snapshot_read(SnapshotRead(1, 40, 64, 3, b"w" * DIGEST_BYTES, b"data"))
    assert seat.sent() == [((3,), SnapshotChunk(40, 64, 2, 3, digest_of(b"data"), b"w" * DIGEST_BYTES, b"data"))]


def test_that_there_is_no_snapshot_can_be_said_in_bytes() -> None:
    seat = Seat(1, 64)
    serving = Serving(seat.context)
    serving.snapshot_wanted(3, SnapshotWanted(7, 0))
    seat.taken()
    serving.snapshot_read(SnapshotRead(1, 7, 0, 0, b"", b""))
    (answer,) = seat.messages()
    assert decode(b"".join(encode(answer))) == answer
