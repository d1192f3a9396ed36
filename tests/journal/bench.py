"""A journal with its writer and maintenance run inline, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.journal.compaction import run_maintenance
from tocsin.journal.jobs import MaintenanceJob
from tocsin.journal.reader import BlockReader
from tocsin.journal.recovery import recover
from tocsin.journal.snapshot import Section, SnapshotWriter
from tocsin.model.identity import Lsn
from tocsin.runtime.ports import Files
from tocsin.testing.disk import SeededRandom

SEGMENT_BYTES = 4096


class Bench:
    """Opens the journal on construction; `replayed` has what the replay gave, payloads as bytes."""

    def __init__(self, files: Files, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.files, self.segment_bytes = files, segment_bytes
        recovered = recover(files, segment_bytes=segment_bytes, random=SeededRandom(7))
        self.journal, self.writer = recovered.journal, recovered.writer
        self.snapshot, self.identity, self.notes = recovered.snapshot, recovered.identity, recovered.notes
        self.replayed = [(lsn, kind, epoch, bytes(payload)) for lsn, kind, epoch, payload in recovered.replay]

    def append(self, *payloads: bytes, live: bool = True, kind: int = 1) -> list[Lsn]:
        return [self.journal.append(kind, [payload], live=live) for payload in payloads]

    def flush(self) -> None:
        """Write everything that waits, commit by commit."""
        while (job := self.journal.take()) is not None:
            self.journal.written(self.writer.write(job))

    def commit(self, *payloads: bytes, live: bool = True) -> list[Lsn]:
        """Append and write as one commit, if it fits the bounds of one."""
        lsns = self.append(*payloads, live=live)
        self.flush()
        return lsns

    def maintain(self) -> list[MaintenanceJob]:
        """All upkeep that there is to do now."""
        done = []
        while (job := self.journal.maintenance()) is not None:
            self.journal.maintained(run_maintenance(self.files, job, self.segment_bytes))
            done.append(job)
        return done

    def read(self, lsns: Sequence[int]) -> list[bytes]:
        """Payloads from disk, with a reader that knows nothing yet."""
        locations = [self.journal.locate(Lsn(lsn)) for lsn in lsns]
        reader = BlockReader(self.files)
        try:
            return reader.read([location for location in locations if location is not None])
        finally:
            reader.close()

    def close(self) -> None:
        self.writer.close()


def take_snapshot(bench: Bench, lsn: int) -> None:
    writer = SnapshotWriter(bench.files, bench.identity.journal_id, Lsn(lsn), spare_bytes=0)
    writer.add(Section("state", Lsn(lsn), b"state at %d" % lsn))
    writer.commit()
    bench.journal.snapshot_taken(Lsn(lsn))
