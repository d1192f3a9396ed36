"""The inspector reads whole and damaged journals, and changes neither."""

from __future__ import annotations

import pytest
from tests.journal.app import STREAM, App, History, payload, workload

from tocsin.journal.inspect import (
    DumpedEntry,
    DumpedRecord,
    Finding,
    SegmentInfo,
    Severity,
    SnapshotInfo,
    StreamFileInfo,
    check,
    dump,
    dump_stream,
    list_files,
)
from tocsin.journal.meta import META
from tocsin.journal.segment import RESERVE, segment_name
from tocsin.journal.snapshot import snapshot_name
from tocsin.testing.disk import SimulatedDisk


@pytest.fixture
def app() -> App:
    """Segments, snapshots, side indexes and a stream of several files, cleanly closed."""
    app = App(SimulatedDisk(), History())
    workload(app)
    return app


def findings(disk: SimulatedDisk) -> list[Finding]:
    before = disk.operations
    found = list(check(disk))
    list(list_files(disk))
    list(dump(disk))
    list(dump_stream(disk, STREAM))
    assert disk.operations == before, "looking changes nothing"
    return found


def segment_infos(disk: SimulatedDisk) -> list[SegmentInfo]:
    return [info for info in list_files(disk) if isinstance(info, SegmentInfo)]


def test_a_whole_journal_has_no_findings(app: App) -> None:
    assert findings(app.disk) == []


def test_an_empty_directory_says_that_meta_is_missing() -> None:
    assert [finding.file for finding in findings(SimulatedDisk())] == [META]


def test_list_names_every_file_with_its_range(app: App) -> None:
    infos = list(list_files(app.disk))
    segments = [info for info in infos if isinstance(info, SegmentInfo)]
    assert segments[-1].last_lsn == app.journal.last_lsn
    assert [info.sealed for info in segments] == [True] * (len(segments) - 1) + [False]
    assert {info.state for info in infos} == {"good"}
    snapshots = [info for info in infos if isinstance(info, SnapshotInfo)]
    assert [info.sections for info in snapshots] == [1, 1]
    streams = [info for info in infos if isinstance(info, StreamFileInfo)]
    ranges = app.store.files_of(STREAM)
    assert [
        (info.file, info.first_offset, info.end_offset, info.first_time_ms, info.last_time_ms) for info in streams
    ] == [(each.name, each.first_offset, each.end_offset, each.first_time_ms, each.last_time_ms) for each in ranges]


def test_dump_shows_every_record(app: App) -> None:
    records = [record for record in dump(app.disk) if isinstance(record, DumpedRecord)]
    newest = segment_infos(app.disk)[-1]
    for record in records:
        kind, data = app.history.attempted[record.lsn]
        assert (record.kind, bytes(record.payload), record.length) == (kind, data, len(data))
    assert [record.lsn for record in records if record.file == newest.file] == list(
        range(newest.first_lsn, newest.last_lsn + 1)
    )


def test_dump_of_a_range(app: App) -> None:
    last = app.journal.last_lsn
    lsns = [
        each.lsn for each in dump(app.disk, first_lsn=last - 3, last_lsn=last - 1) if isinstance(each, DumpedRecord)
    ]
    assert lsns == [last - 3, last - 2, last - 1]


def test_dump_of_a_stream(app: App) -> None:
    entries = [entry for entry in dump_stream(app.disk, STREAM) if isinstance(entry, DumpedEntry)]
    assert [entry.first_offset for entry in entries] == list(range(app.moved))
    assert [bytes(entry.block) for entry in entries] == [payload(entry.lsn) for entry in entries]
    assert all(entry.append_time_ms == entry.lsn * 1000 for entry in entries)


def test_damage_is_named_and_what_lies_behind_it_is_still_shown(app: App) -> None:
    newest = segment_infos(app.disk)[-1]
    records = [each for each in dump(app.disk) if isinstance(each, DumpedRecord) and each.file == newest.file]
    victim = records[1]
    app.disk.flip(newest.file, 8 * (victim.position + 50))
    (finding,) = findings(app.disk)
    assert (finding.severity, finding.file, finding.position, finding.lsn) == (
        Severity.DAMAGE,
        newest.file,
        victim.position,
        victim.lsn,
    )
    left = [each.lsn for each in dump(app.disk) if isinstance(each, DumpedRecord) and each.file == newest.file]
    assert left == [record.lsn for record in records if record is not victim]


def test_several_damaged_places_are_all_found(app: App) -> None:
    newest = segment_infos(app.disk)[-1]
    records = [each for each in dump(app.disk) if isinstance(each, DumpedRecord) and each.file == newest.file]
    for victim in records[1::3]:
        app.disk.flip(newest.file, 8 * (victim.position + 12))
    assert [finding.lsn for finding in findings(app.disk)] == [record.lsn for record in records[1::3]]


def test_a_torn_tail_is_a_note() -> None:
    app = App(SimulatedDisk(), History())
    app.publish()
    app.flush()
    where = app.journal.locate(app.journal.last_lsn)
    assert where is not None
    app.disk.open(where.file).write(0x400, [b"half a record"])
    (finding,) = findings(app.disk)
    assert (finding.severity, finding.file) == (Severity.NOTE, where.file)
    assert "crash" in finding.text


def test_a_segment_that_was_never_born_is_a_note() -> None:
    app = App(SimulatedDisk(), History())
    app.disk.rename(RESERVE, segment_name(1))
    (finding,) = findings(app.disk)
    assert finding.severity is Severity.NOTE


def test_every_kind_of_file_is_checked(app: App) -> None:
    disk = app.disk
    newest_snapshot = max(name for name in disk.list("snapshots") if name.endswith(".snap"))
    index = next(name for name in disk.list("journal") if name.endswith(".idx"))
    stream_file = app.store.files_of(STREAM)[0].name
    for name, severity in (
        (META, Severity.DAMAGE),
        (f"snapshots/{newest_snapshot}", Severity.DAMAGE),
        (f"journal/{index}", Severity.NOTE),
        (stream_file, Severity.DAMAGE),
        (segment_infos(disk)[0].file, Severity.DAMAGE),
    ):
        disk.flip(name, 8 * 30)
        found = [finding for finding in findings(disk) if finding.file == name]
        assert [finding.severity for finding in found][:1] == [severity], name
        disk.flip(name, 8 * 30)
    assert findings(disk) == []


def test_a_missing_stream_file_is_found() -> None:
    app = App(SimulatedDisk(), History())
    workload(app, steps=90)
    first, middle, *_ = app.store.files_of(STREAM)
    app.disk.remove(middle.name)
    (finding,) = [each for each in findings(app.disk) if "missing" in each.text]
    assert (finding.severity, finding.lsn) == (Severity.DAMAGE, first.end_offset)


def test_a_missing_segment_is_found() -> None:
    app = App(SimulatedDisk(), History())
    while len(app.journal.sealed_ranges()) < 2:
        app.publish()
        app.flush()
    (first, last), _ = app.journal.sealed_ranges()
    app.disk.remove(segment_name(first))
    found = findings(app.disk)
    assert [(finding.severity, finding.lsn) for finding in found] == [(Severity.DAMAGE, 1)]
    assert f"1 to {last}" in found[0].text


def test_a_journal_without_meta_is_still_readable(app: App) -> None:
    records = len(list(dump(app.disk)))
    app.disk.remove(META)
    assert len(list(dump(app.disk))) == records
    snapshots = [info for info in list_files(app.disk) if isinstance(info, SnapshotInfo)]
    assert [info.state for info in snapshots] == ["good", "good"]
    assert snapshots[0].file == snapshot_name(snapshots[0].lsn)


def test_no_flipped_byte_stops_the_inspector(app: App) -> None:
    disk = app.disk
    newest = segment_infos(disk)[-1].file
    for byte in range(0, 600, 3):
        disk.flip(newest, 8 * byte + 1)
        assert findings(disk)
        disk.flip(newest, 8 * byte + 1)
