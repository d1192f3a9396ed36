"""Opening a member's journal after a crash, and replacing it by another member's snapshot."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from tests.replication.test_journal_log import SEGMENT_BYTES, entry, opened, read, state, work

from tocsin.journal.snapshot import Section, SnapshotWriter, stream_sections
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn
from tocsin.model.limits import SNAPSHOT_CHUNK_BYTES
from tocsin.replication.journal_snapshot import group_section
from tocsin.replication.journal_work import OpenedLog, replace_log, store_of
from tocsin.replication.package import Package, PackageWriter
from tocsin.replication.package_reader import PackageReader
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk


def test_a_crash_at_every_step_loses_nothing_that_was_durable() -> None:
    """Appends, a promise and a cut: what was told to be durable is there, and no promise is forgotten."""
    for operation in range(80):
        disk = SimulatedDisk()
        log = opened(disk)
        begin = disk.operations
        disk.faults[begin + operation] = Fault.CRASH
        durable, promised, done = 0, 0, False
        with suppress(SimulatedCrash):
            for number in range(6):
                log.log.append(entry(64, number))
            work(log)
            durable, promised = log.log.durable_lsn, log.log.durable_promise
            log.log.promise(128)
            log.log.cut(4)
            durable = 4
            log.log.append(entry(128, 7))
            work(log)
            durable, promised, done = log.log.durable_lsn, log.log.durable_promise, True
        for seed in range(3):
            again = opened(disk.crash(Random(seed)))
            assert again.log.last_lsn >= durable
            assert again.log.promised >= promised
            assert (
                read(again, 1, 4)
                == [(64, 1, b"epoch 64 number %d" % number) for number in range(4)][: again.log.last_lsn]
            )
        if done:
            return
    raise AssertionError("it takes more steps than were tried")


def with_snapshot(disk: SimulatedDisk, records: int = 3) -> OpenedLog:
    """A log of ten records with a snapshot at seven; one section is newer by `records`."""
    log = opened(disk)
    log.log.promise(65)
    for number in range(10):
        log.log.append(entry(64 if number < 5 else 65, number))
    work(log)
    writer = SnapshotWriter(disk, log.recovered.identity.journal_id, Lsn(7), spare_bytes=0)
    writer.add(group_section(7, log.log.epoch_at(7)))
    writer.add(Section("state", Lsn(7 + records), b"x" * (SNAPSHOT_CHUNK_BYTES * 2)))
    writer.commit()
    return log


def package(log: OpenedLog, disk: SimulatedDisk, target: SimulatedDisk, records: int = 3) -> Package:
    """A package of one disk, written to another one."""
    identity = log.recovered.identity
    writer = PackageWriter(target, "package", identity.journal_id, 7)
    for section in stream_sections(disk, 7, identity.journal_id):
        writer.section(section)
    for number, (epoch, kind, payload) in enumerate(read(log, 2, 4), 2):
        writer.live(number, kind, epoch, payload)
    for number, (epoch, kind, payload) in enumerate(read(log, 8, 7 + records), 8):
        writer.record(number, kind, epoch, payload)
    return writer.finish(7 + records, 65)


@pytest.mark.parametrize("records", [0, 3])
def test_a_snapshot_goes_from_one_journal_to_another(records: int) -> None:
    source_disk, target_disk = SimulatedDisk(), SimulatedDisk()
    source, target = with_snapshot(source_disk, records), opened(target_disk)
    target.log.promise(70)
    for number in range(4):
        target.log.append(entry(70, number))
    work(target)
    pack = package(source, source_disk, target_disk, records)
    assert (pack.lsn, pack.epoch, pack.count) == (7 + records, 65, 3)
    target.work.close()
    reader = PackageReader(target_disk, "package")
    reader.verify()
    replace_log(target_disk, target.recovered.identity, reader, SEGMENT_BYTES)
    reader.close()
    again = opened(target_disk)
    assert state(again.log) == (7, 7 + records, 7 + records, 70, 70)
    assert again.log.store == target.log.store == store_of(target.recovered.identity)
    assert read(again, 8, 7 + records) == read(source, 8, 7 + records)
    assert read(again, 2, 4) == read(source, 2, 4), "older records that are still read"
    assert read(again, 5, 5) == []
    assert again.recovered.snapshot is not None
    assert {section.name for section in again.recovered.snapshot.sections} == {"group", "state"}


def test_after_a_restart_the_log_begins_behind_its_snapshot() -> None:
    disk = SimulatedDisk()
    with_snapshot(disk)
    again = opened(disk)
    assert (again.log.base_lsn, again.log.epoch_at(7), again.log.last_lsn) == (7, 65, 10)


def test_a_snapshot_that_is_of_no_group_is_refused() -> None:
    disk = SimulatedDisk()
    log = opened(disk)
    log.log.append(entry(64, 1))
    work(log)
    writer = SnapshotWriter(disk, log.recovered.identity.journal_id, Lsn(1), spare_bytes=0)
    writer.add(Section("state", Lsn(1), b""))
    writer.commit()
    with pytest.raises(JournalDamaged, match="it is of no group"):
        opened(disk)
