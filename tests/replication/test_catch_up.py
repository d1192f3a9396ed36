"""A snapshot, chunk by chunk: from a backup first, verified, and only if it is of use."""

from __future__ import annotations

from tests.replication.seat import CONFIG, EPOCH, Seat

from tocsin.model.limits import SNAPSHOT_WAITS_MAX
from tocsin.replication.backup import Backup
from tocsin.replication.catch_up import CatchUp, whole_digest
from tocsin.replication.data_pool import digest_of
from tocsin.replication.events import ChunkStaged, InstallSnapshot, SnapshotRefused, StageChunk
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


def take(catch_up: CatchUp, index: int, whole: bytes = WHOLE) -> None:
    """A chunk arrives and is staged."""
    catch_up.chunk(BACKUP, chunk(index, whole=whole), 0.1)
    catch_up.staged(ChunkStaged(40, index), 0.2)


def test_a_backup_is_asked_before_the_primary() -> None:
    seat, _ = begun()
    assert seat.sent() == [((BACKUP,), SnapshotWanted(0, 0))]


def test_all_chunks_then_the_install() -> None:
    seat, catch_up = begun(1, 1)
    seat.taken()
    take(catch_up, 0)
    catch_up.chunk(BACKUP, chunk(0), 0.1)
    take(catch_up, 1)
    effects = seat.taken()
    assert [effect for effect in effects if isinstance(effect, StageChunk)] == [
        StageChunk(40, 0, b"one"),
        StageChunk(40, 1, b"two"),
    ]
    take(catch_up, 2)
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
    take(catch_up, 0)
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
    catch_up.chunk(BACKUP, chunk(0, lsn=0, count=0), 0.1)
    assert seat.sent() == [((PRIMARY,), SnapshotWanted(0, 0))]


def test_chunks_of_two_snapshots_are_never_mixed() -> None:
    seat, catch_up = begun()
    seat.taken()
    take(catch_up, 0)
    seat.taken()
    catch_up.chunk(BACKUP, chunk(1, lsn=41), 0.2)
    assert seat.messages() == [SnapshotWanted(0, 0)], "begun anew"


def test_chunks_that_do_not_belong_together_are_not_installed() -> None:
    wrong = whole_digest([b"another"])
    seat, catch_up = begun()
    for index in range(3):
        take(catch_up, index, whole=wrong)
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


def test_the_next_chunk_waits_until_the_disk_has_taken_this_one() -> None:
    seat, catch_up = begun()
    seat.taken()
    catch_up.chunk(BACKUP, chunk(0), 0.1)
    assert seat.taken() == [StageChunk(40, 0, b"one")]
    assert catch_up.next_deadline() == float("inf")
    catch_up.staged(ChunkStaged(39, 0), 0.2)
    catch_up.staged(ChunkStaged(40, 1), 0.2)
    catch_up.tick(5.0)
    assert seat.taken() == []
    catch_up.staged(ChunkStaged(40, 0), 0.2)
    assert seat.sent() == [((BACKUP,), SnapshotWanted(40, 1))]


def test_a_disk_that_refuses_is_given_time_and_another_source() -> None:
    seat, catch_up = begun()
    for refuse_at in (1, 3):
        seat.taken()
        sender = catch_up._sources[0]
        for index in range(refuse_at):
            catch_up.chunk(sender, chunk(index), 0.1)
            if index < refuse_at - 1 or refuse_at == 3:
                catch_up.staged(ChunkStaged(40, index), 0.1)
        catch_up.refused(SnapshotRefused(39), 0.2)
        catch_up.refused(SnapshotRefused(40), 0.2)
        assert not catch_up.installing
        assert 1.0 < catch_up.next_deadline() < 60.0
        seat.taken()
        catch_up.tick(catch_up.next_deadline())
        assert seat.sent() == [((catch_up._sources[0],), SnapshotWanted(0, 0))]
        assert catch_up._sources[0] != sender


def test_who_makes_a_snapshot_is_waited_for() -> None:
    seat, catch_up = begun()
    seat.taken()
    for _ in range(50):
        catch_up.chunk(BACKUP, chunk(0, lsn=44, count=0), 0.1)
        catch_up.tick(catch_up.next_deadline())
        assert seat.sent() == [((BACKUP,), SnapshotWanted(0, 0))]
    take(catch_up, 0)
    assert StageChunk(40, 0, b"one") in seat.taken()


def test_but_not_for_ever() -> None:
    seat, catch_up = begun()
    for _ in range(SNAPSHOT_WAITS_MAX):
        catch_up.chunk(BACKUP, chunk(0, lsn=44, count=0), 0.1)
        catch_up.tick(catch_up.next_deadline())
    seat.taken()
    catch_up.chunk(BACKUP, chunk(0, lsn=44, count=0), 0.1)
    assert seat.sent() == [((PRIMARY,), SnapshotWanted(0, 0))]
