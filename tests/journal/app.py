"""A small application on a journal, and a history that knows what it was promised: the oracle of the crash
tests.

Record kinds: PUBLISH has a payload that is read later; ACKNOWLEDGE names LSNs that are done; RETAINED is a
block of stream 5; MOVED says up to which offset the stream's blocks were copied out of the journal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.journal.bench import SEGMENT_BYTES, Bench

from tocsin.journal.compaction import run_move
from tocsin.journal.jobs import MoveBlock, MoveJob
from tocsin.journal.reader import BlockReader
from tocsin.journal.snapshot import Section, SnapshotWriter
from tocsin.journal.stream import StreamStore
from tocsin.model.identity import Lsn, Offset
from tocsin.testing.disk import SimulatedDisk

PUBLISH, ACKNOWLEDGE, RETAINED, MOVED = 1, 2, 3, 4
STREAM = 5


def payload(lsn: int) -> bytes:
    """Different for each record, of many sizes, never with a zero byte, some longer than a sector."""
    size = 20 + lsn * 37 % 180 + (700 if lsn % 13 == 0 else 0)
    return (b"record-%d;" % lsn * (size // 8 + 1))[:size]


@dataclass
class History:
    """What was asked and what was confirmed, over all crashes."""

    attempted: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    confirmed: int = 0

    def check_records(self, replayed: list[tuple[Lsn, int, int, bytes]], begin: int, last_lsn: int) -> None:
        lsns = [lsn for lsn, _, _, _ in replayed]
        assert lsns == list(range(begin + 1, last_lsn + 1)), "the replay is dense and has nothing twice"
        for lsn, kind, _, data in replayed:
            assert self.attempted[lsn] == (kind, data), f"record {lsn} is not what was written"
        assert last_lsn >= self.confirmed, f"records {last_lsn + 1} to {self.confirmed} were confirmed and are lost"

    def forget_after(self, last_lsn: int) -> None:
        """What a crash took and nobody had been promised."""
        for lsn in [lsn for lsn in self.attempted if lsn > last_lsn]:
            del self.attempted[lsn]


class App:
    """Opens the journal, rebuilds its state from snapshot and replay, checks both against the history."""

    def __init__(self, disk: SimulatedDisk, history: History) -> None:
        self.history = history
        self.bench = Bench(disk)
        self.journal = self.bench.journal
        self.live: set[int] = set()
        self.retained: dict[int, tuple[int, int]] = {}
        """Offset to (lsn, append time) of the blocks that are still in the journal only."""
        self.moved = self.next_offset = 0
        self._restore()
        history.check_records(self.bench.replayed, self.begin, self.journal.last_lsn)
        history.forget_after(self.journal.last_lsn)
        self.journal.retain_many(sorted(self.live | {lsn for lsn, _ in self.retained.values()}))
        self.store = StreamStore(disk, file_bytes=SEGMENT_BYTES // 2)
        self.store.recover()
        self.check_payloads()

    @property
    def disk(self) -> SimulatedDisk:
        assert isinstance(self.bench.files, SimulatedDisk)
        return self.bench.files

    def _restore(self) -> None:
        snapshot = self.bench.snapshot
        self.begin = snapshot.lsn if snapshot is not None else 0
        if snapshot is not None:
            (section,) = snapshot.sections
            state = json.loads(bytes(section.data))
            self.live = set(state["live"])
            self.retained = {offset: (lsn, time) for offset, lsn, time in state["retained"]}
            self.moved, self.next_offset = state["moved"], state["next_offset"]
        for lsn, kind, _, data in self.bench.replayed:
            self._apply(lsn, kind, data)

    def _apply(self, lsn: int, kind: int, data: bytes) -> None:
        if kind == PUBLISH:
            self.live.add(lsn)
        elif kind == ACKNOWLEDGE:
            self.live -= set(json.loads(data))
        elif kind == RETAINED:
            self.retained[self.next_offset] = (lsn, lsn * 1000)
            self.next_offset += 1
        else:
            self.moved = json.loads(data)
            self.retained = {offset: where for offset, where in self.retained.items() if offset >= self.moved}

    def check_payloads(self) -> None:
        """Everything that the state needs can be read and is what was written."""
        lsns = sorted(self.live)
        assert self.bench.read(lsns) == [payload(lsn) for lsn in lsns]
        assert self.store.end_offset(STREAM) >= self.moved
        reader = BlockReader(self.bench.files)
        for offset in range(self.next_offset):
            if offset in self.retained:
                where = self.journal.locate(Lsn(self.retained[offset][0]))
                assert where is not None
            else:
                found = self.store.find_offset(STREAM, Offset(offset))
                assert found is not None
                assert found[1:] == (offset, 1)
                where = found[0]
            (block,) = reader.read([where])
            number = int(block.partition(b";")[0].removeprefix(b"record-"))
            assert block == payload(number)

    # What the application does.

    def append(self, kind: int, data: bytes, *, live: bool) -> Lsn:
        lsn = Lsn(self.journal.last_lsn + 1)
        self.history.attempted[lsn] = (kind, data)
        self.journal.append(kind, [data[:7], data[7:]], live=live)
        self._apply(lsn, kind, data)
        return lsn

    def publish(self, *, retained: bool = False) -> None:
        data = payload(self.journal.last_lsn + 1)
        self.append(RETAINED if retained else PUBLISH, data, live=True)

    def acknowledge(self, lsns: list[int]) -> None:
        self.append(ACKNOWLEDGE, json.dumps(lsns).encode(), live=False)
        for lsn in lsns:
            self.journal.release(Lsn(lsn))

    def flush(self) -> None:
        while (job := self.journal.take()) is not None:
            self.journal.written(self.bench.writer.write(job))
            self.history.confirmed = self.journal.durable_lsn

    def snapshot(self) -> None:
        self.flush()
        lsn = self.journal.durable_lsn
        retained = [(offset, *where) for offset, where in self.retained.items()]
        state = {
            "live": sorted(self.live),
            "retained": retained,
            "moved": self.moved,
            "next_offset": self.next_offset,
        }
        writer = SnapshotWriter(self.bench.files, self.bench.identity.journal_id, lsn, spare_bytes=512)
        writer.add(Section("state", lsn, json.dumps(state).encode()))
        writer.commit()
        self.journal.snapshot_taken(lsn)

    def move(self) -> None:
        """Copy the retained blocks of sealed segments into their stream, then let the journal's copies go."""
        sealed_end = max((last for _, last in self.journal.sealed_ranges()), default=0)
        blocks = []
        for offset, (lsn, time) in sorted(self.retained.items()):
            where = self.journal.locate(Lsn(lsn))
            if lsn <= sealed_end and where is not None:
                blocks.append(MoveBlock(Lsn(lsn), STREAM, Offset(offset), 1, time, where))
        if not blocks:
            return
        done = run_move(MoveJob(blocks), BlockReader(self.bench.files), self.store)
        self.append(MOVED, json.dumps(done.end_offsets[STREAM]).encode(), live=False)
        self.flush()
        for lsn in done.lsns:
            self.journal.release(Lsn(lsn))


def workload(app: App, steps: int = 50) -> None:
    """Rolls segments, takes snapshots, compacts and moves blocks to a stream."""
    for step in range(steps):
        app.publish()
        app.publish(retained=step % 3 == 0)
        if step % 2:
            done = [lsn for lsn in sorted(app.live) if lsn % 9]
            app.acknowledge(done[: 4 + step % 2])
        app.flush()
        if step % 8 == 7:
            app.snapshot()
            app.bench.maintain()
        if step % 10 == 9:
            app.move()
    app.bench.maintain()
    app.bench.close()
