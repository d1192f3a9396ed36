"""Snapshots: written in steps, two generations, a full disk."""

from __future__ import annotations

import pytest

from tocsin.journal.snapshot import (
    SPARE,
    BadSnapshot,
    Section,
    Snapshot,
    SnapshotWriter,
    decode_snapshot,
    load_snapshot,
    read_snapshot,
    snapshot_lsns,
    snapshot_name,
    stream_sections,
)
from tocsin.model.errors import StorageFull
from tocsin.model.identity import Lsn
from tocsin.testing.disk import SimulatedDisk

JOURNAL_ID = b"j" * 16


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder("snapshots")
    return disk


def sections(lsn: int, size: int = 50) -> list[Section]:
    return [
        Section("queue orders", Lsn(lsn), b"q" * size),
        Section("thème", Lsn(lsn + 3), b""),
        Section("", Lsn(lsn + 1), b"\0" * size),
    ]


def write(disk: SimulatedDisk, lsn: int, *, size: int = 50, spare: int = 0) -> None:
    writer = SnapshotWriter(disk, JOURNAL_ID, Lsn(lsn), spare_bytes=spare)
    for section in sections(lsn, size):
        writer.add(section)
    writer.commit()


def test_what_was_written_is_loaded(disk: SimulatedDisk) -> None:
    write(disk, 10)
    loaded = load_snapshot(disk, JOURNAL_ID)
    assert loaded == Snapshot(Lsn(10), tuple(sections(10)))
    assert loaded.highest_lsn() == 13


def test_no_snapshot_is_none(disk: SimulatedDisk) -> None:
    assert load_snapshot(disk, JOURNAL_ID) is None


def test_a_snapshot_without_sections(disk: SimulatedDisk) -> None:
    SnapshotWriter(disk, JOURNAL_ID, Lsn(4), spare_bytes=0).commit()
    loaded = load_snapshot(disk, JOURNAL_ID)
    assert loaded == Snapshot(Lsn(4), ())
    assert loaded.highest_lsn() == 4


def test_the_writer_knows_what_must_be_durable_first(disk: SimulatedDisk) -> None:
    writer = SnapshotWriter(disk, JOURNAL_ID, Lsn(10), spare_bytes=0)
    for section in sections(10):
        writer.add(section)
    assert writer.highest_lsn == 13


def test_two_generations_are_kept(disk: SimulatedDisk) -> None:
    for lsn in (10, 20, 30):
        write(disk, lsn)
    assert snapshot_lsns(disk) == [20, 30]


def test_an_unfinished_or_aborted_snapshot_does_not_count(disk: SimulatedDisk) -> None:
    write(disk, 10)
    writer = SnapshotWriter(disk, JOURNAL_ID, Lsn(20), spare_bytes=0)
    writer.add(sections(20)[0])
    assert snapshot_lsns(disk) == [10]
    writer.abort()
    writer.abort()
    assert disk.list("snapshots") == (snapshot_name(10).removeprefix("snapshots/"),)


def test_an_unfinished_snapshot_is_begun_again(disk: SimulatedDisk) -> None:
    SnapshotWriter(disk, JOURNAL_ID, Lsn(20), spare_bytes=0).add(sections(20)[0])
    write(disk, 20)
    assert read_snapshot(disk, 20, JOURNAL_ID).sections == tuple(sections(20))


def test_every_changed_or_missing_byte_is_found(disk: SimulatedDisk) -> None:
    write(disk, 10)
    file = disk.open(snapshot_name(10))
    data = file.read(0, file.size())
    for byte in range(len(data)):
        damaged = bytearray(data)
        damaged[byte] ^= 4
        with pytest.raises(BadSnapshot):
            decode_snapshot(bytes(damaged), "name", 10, JOURNAL_ID)
        with pytest.raises(BadSnapshot):
            decode_snapshot(data[:byte], "name", 10, JOURNAL_ID)


def test_a_snapshot_of_another_journal_or_lsn_is_bad(disk: SimulatedDisk) -> None:
    write(disk, 10)
    with pytest.raises(BadSnapshot, match="another journal"):
        read_snapshot(disk, 10, b"k" * 16)
    disk.rename(snapshot_name(10), snapshot_name(11))
    with pytest.raises(BadSnapshot, match="another LSN"):
        read_snapshot(disk, 11, JOURNAL_ID)


def test_loading_falls_back_and_says_when_all_are_bad(disk: SimulatedDisk) -> None:
    write(disk, 10)
    write(disk, 20)
    disk.flip(snapshot_name(20), 600)
    loaded = load_snapshot(disk, JOURNAL_ID)
    assert loaded is not None
    assert loaded.lsn == 10
    disk.flip(snapshot_name(10), 600)
    with pytest.raises(BadSnapshot):
        load_snapshot(disk, JOURNAL_ID)


def used(disk: SimulatedDisk) -> int:
    disk.capacity = 1 << 30
    return disk.capacity - disk.free_bytes()


def test_on_a_full_disk_the_older_generation_makes_room(disk: SimulatedDisk) -> None:
    write(disk, 10, size=400)
    write(disk, 20, size=400)
    disk.capacity = used(disk) + 100
    write(disk, 30, size=400)
    assert snapshot_lsns(disk) == [20, 30]
    assert read_snapshot(disk, 30, JOURNAL_ID).sections == tuple(sections(30, 400))


def test_on_a_full_disk_the_spare_makes_room(disk: SimulatedDisk) -> None:
    write(disk, 10, size=400, spare=2000)
    assert SPARE.removeprefix("snapshots/") in disk.list("snapshots")
    disk.capacity = used(disk)
    write(disk, 20, size=400, spare=2000)
    assert snapshot_lsns(disk) == [10, 20]
    disk.capacity = None
    write(disk, 30, spare=2000)
    assert SPARE.removeprefix("snapshots/") in disk.list("snapshots"), "it is kept again when there is room"


def test_without_room_the_snapshot_is_given_up_without_harm(disk: SimulatedDisk) -> None:
    write(disk, 10)
    write(disk, 20)
    disk.capacity = used(disk) + 50
    with pytest.raises(StorageFull):
        write(disk, 30, size=5000)
    assert snapshot_lsns(disk) == [20]
    assert not [name for name in disk.list("snapshots") if name.endswith("tmp")]
    loaded = load_snapshot(disk, JOURNAL_ID)
    assert loaded is not None
    assert loaded.lsn == 20


def test_section_by_section(disk: SimulatedDisk) -> None:
    write(disk, 10)
    assert list(stream_sections(disk, 10, JOURNAL_ID)) == sections(10)


def test_every_damage_is_found_section_by_section(disk: SimulatedDisk) -> None:
    write(disk, 10)
    file = disk.open(snapshot_name(10))
    data = file.read(0, file.size())
    for byte in range(len(data)):
        damaged = bytearray(data)
        damaged[byte] ^= 4
        for content in (bytes(damaged), data[:byte]):
            file.truncate(0)
            file.write(0, [content])
            with pytest.raises(BadSnapshot):
                list(stream_sections(disk, 10, JOURNAL_ID))
    file.write(0, [data])
    with pytest.raises(BadSnapshot, match="another journal"):
        list(stream_sections(disk, 10, b"k" * 16))
