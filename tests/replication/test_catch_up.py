"""A snapshot, chunk by chunk: from a backup first, verified, and only if it is of use."""

from __future__ import annotations

from tests.replication.seat import CONFIG, EPOCH, Seat

from tocsin.replication.backup import Backup
from tocsin.replication.catch_up import CatchUp, whole_digest
from tocsin.replication.data_pool import digest_of
from tocsin.replication.events import InstallSnapshot, StageChunk
from tocsin.replication.messages import SnapshotChunk, SnapshotWanted
from tocsin.replication.roles import Trigger

BACKUP, PRIMARY = 2, 1
PIECES = (b"one", b"two", b"three")
WHOLE = whole_digest([digest_of(piece) for piece in PIECES])


def begun(*epochs: int, needed: int = 30) -> tuple[Seat, CatchUp]:
    seat = Seat(3, *epochs)
    follower = Backup(seat.context, EPOCH, PRIMARY, 0.0, 1.0)
    follower.hint, follower.needed = CONFIG, needed
    return seat, CatchUp(seat.context, follower, now=0.0)


def chunk(index: int, lsn: int = 40, data: bytes | None = None, count: int = 3, whole: bytes = WHOLE) -> SnapshotChunk:
    piece = PIECES[index] if data is None else data
    return SnapshotChunk(lsn, EPOCH, index, count, digest_of(PIECES[index]), whole, piece)


def test_a_backup_is_asked_before_the_primary() -> None:
    seat, _ = begun()
    assert seat.sent() == [((BACKUP,), SnapshotWanted(0, 0))]


def test_all_chunks_then_the_install() -> None:
    seat, catch_up = begun(1, 1)
    seat.taken()
    catch_up.chunk(BACKUP, chunk(0), 0.1)
    catch_up.chunk(BACKUP, chunk(0), 0.1)
    catch_up.chunk(BACKUP, chunk(1), 0.2)
    effects = seat.taken()
    assert [effect for effect in effects if isinstance(effect, StageChunk)] == [
        StageChunk(40, 0, b"one"),
        StageChunk(40, 1, b"two"),
    ]
    catch_up.chunk(BACKUP, chunk(2), 0.3)
    assert seat.taken() == [StageChunk(40, 2, b"three"), InstallSnapshot(40, EPOCH, 3)]
    assert catch_up.installing
    assert catch_up.next_deadline() == float("inf")
    catch_up.installed(40)
    assert (catch_up.trigger, seat.context.committed) == (Trigger.INSTALLED, 40)


def test_a_damaged_chunk_is_asked_for_again() -> None:
    seat, catch_up = begun()
    seat.taken()
    catch_up.chunk(BACKUP, chunk(0, data=b"0ne"), 0.1)
    assert seat.taken() == []
    catch_up.tick(catch_up.next_deadline())
    assert seat.sent() == [((BACKUP,), SnapshotWanted(0, 0))]


def test_silence_makes_it_turn_elsewhere() -> None:
    seat, catch_up = begun()
    seat.taken()
    catch_up.chunk(BACKUP, chunk(0), 0.1)
    receivers = []
    for _ in range(6):
        catch_up.tick(catch_up.next_deadline())
        receivers += [receiver for receiver, _ in seat.sent()]
    assert (PRIMARY,) in receivers


def test_a_snapshot_older_than_the_begin_of_the_primary_s_log_is_of_no_use() -> None:
    seat, catch_up = begun(needed=50)
    seat.taken()
    catch_up.chunk(BACKUP, chunk(0, lsn=40), 0.1)
    assert seat.sent() == [((PRIMARY,), SnapshotWanted(0, 0))]


def test_that_there_is_no_snapshot() -> None:
    seat, catch_up = begun()
    seat.taken()
    catch_up.chunk(BACKUP, chunk(0, count=0), 0.1)
    assert seat.sent() == [((PRIMARY,), SnapshotWanted(0, 0))]


def test_chunks_of_two_snapshots_are_never_mixed() -> None:
    seat, catch_up = begun()
    seat.taken()
    catch_up.chunk(BACKUP, chunk(0), 0.1)
    seat.taken()
    catch_up.chunk(BACKUP, chunk(1, lsn=41), 0.2)
    assert seat.messages() == [SnapshotWanted(0, 0)], "begun anew"


def test_chunks_that_do_not_belong_together_are_not_installed() -> None:
    wrong = whole_digest([b"another"])
    seat, catch_up = begun()
    for index in range(3):
        catch_up.chunk(BACKUP, chunk(index, whole=wrong), 0.1)
    assert not catch_up.installing
    assert not [effect for effect in seat.taken() if isinstance(effect, InstallSnapshot)]


def test_a_log_that_contains_the_snapshot_is_not_replaced() -> None:
    seat, catch_up = begun(*[EPOCH] * 45)
    seat.taken()
    catch_up.chunk(BACKUP, chunk(0), 0.1)
    assert not [effect for effect in seat.taken() if isinstance(effect, StageChunk)]


def test_it_gives_up_after_many_attempts() -> None:
    _, catch_up = begun()
    for _ in range(100):
        if catch_up.trigger is not None:
            break
        catch_up.tick(catch_up.next_deadline())
    assert catch_up.trigger is Trigger.GAVE_UP
