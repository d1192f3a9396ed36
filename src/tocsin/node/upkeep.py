"""What keeps a journal small, between everything else: compaction, and topics' blocks that move to their own files."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.journal.compaction import run_maintenance, run_move
from tocsin.journal.jobs import Maintained, MoveBlock, Moved, MoveJob, SegmentDropped, SegmentRewritten
from tocsin.journal.reader import BlockReader, StaleLocation
from tocsin.journal.segment import segment_name
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.ledger import DropStream
from tocsin.model.errors import StorageFull
from tocsin.model.identity import Lsn, Offset
from tocsin.model.limits import MOVE_BLOCKS_MAX
from tocsin.node.mending import Damaged, Mending
from tocsin.node.placing import Owner
from tocsin.node.workers import Workers
from tocsin.runtime.ports import Files


class Upkeep:
    """Works for one journal; `reader` is the one of the reading thread, which must let go of files that are gone."""

    def __init__(
        self,
        owner: Owner,
        files: Files,
        segment_bytes: int,
        reader: BlockReader,
        workers: Workers,
        mending: Mending,
        progress: Callable[[], None],
    ) -> None:
        self._owner, self._files, self._segment_bytes, self._mending = owner, files, segment_bytes, mending
        self._reader, self._workers, self._progress = reader, workers, progress
        self._own_reader = BlockReader(files)
        self._maintaining = self._moving = False
        self._undropped: list[DropStream] = []
        """Those that found no room: only streams of earlier releases need any."""
        self._moved_to = 0
        self._swept = False

    @property
    def busy(self) -> bool:
        return self._maintaining or self._moving

    def step(self, bound: Lsn, safe_lsn: Lsn | None = None) -> None:
        """Begins what makes sense now. Only blocks up to `bound` are moved: later ones may never have been.

        `safe_lsn` as in `Journal.maintenance`.
        """
        if not self._swept:
            self._sweep()
        undropped, self._undropped = self._undropped, []
        for drop in undropped:
            self.drop_stream(drop)
        journal = self._owner.journal
        if not self._maintaining and (job := journal.maintenance(safe_lsn)) is not None:
            self._maintaining = True
            segment_bytes = self._segment_bytes
            self._workers.upkeep(lambda: run_maintenance(self._files, job, segment_bytes), self._maintained)
        if not self._moving:
            self._move_retained(bound)

    def _maintained(self, done: Maintained) -> None:
        self._maintaining = False
        self._owner.journal.maintained(done)
        if isinstance(done, SegmentDropped | SegmentRewritten):
            self._forget(segment_name(done.first_lsn))
        self._progress()

    def _forget(self, name: str) -> None:
        """A file is gone or replaced; its room comes back only when nobody has it open any more."""
        self._workers.read(lambda: self._reader.forget(name), lambda _: self._progress())
        self._workers.upkeep(lambda: self._own_reader.forget(name), lambda _: self._progress())

    # ---- retained topics

    def _sweep(self) -> None:
        """Once after a start: what retention or a purge had decided to drop, and a crash kept from it."""
        self._swept = True
        for state in self._owner.manager.directory:
            files = self._owner.streams.files_of(state.id) if state.options.retained else []
            if files and files[0].last_time_ms and files[0].end_offset <= state.log.first_offset:
                self.drop_stream(DropStream(state.id, state.log.first_offset))

    def drop_stream(self, drop: DropStream) -> None:
        streams = self._owner.streams

        def job() -> bool:
            try:
                if drop.before is None:
                    streams.delete(drop.destination)
                else:
                    streams.drop_before(drop.destination, Offset(drop.before))
            except StorageFull:
                return False
            return True

        self._workers.upkeep(job, lambda done: self._stream_dropped(drop, done))

    def _stream_dropped(self, drop: DropStream, done: bool) -> None:
        """Which of its files are gone only the thread knows: the reader opens what it needs again."""
        if not done:
            self._undropped.append(drop)
        self._workers.read(self._reader.close, lambda _: self._progress() if done else None)

    def _move_retained(self, bound: Lsn) -> None:
        """Blocks of retained topics leave sealed segments for their own files, once, in the order of their offsets."""
        sealed = [last for _, last in self._owner.journal.sealed_ranges() if last <= bound]
        if not sealed or sealed[-1] == self._moved_to:
            return
        last = int(sealed[-1])
        blocks: list[MoveBlock] = []
        for state in self._owner.manager.directory:
            if state.options.retained and len(blocks) < MOVE_BLOCKS_MAX:
                self._collect(state, last, blocks)
        if len(blocks) < MOVE_BLOCKS_MAX:
            self._moved_to = last
        if blocks:
            self._moving = True
            self._workers.upkeep(lambda: self._run_move(MoveJob(tuple(blocks))), self._moved)

    def _collect(self, state: DestinationState, last: int, blocks: list[MoveBlock]) -> None:
        """Rows from where the topic's own files end, up to the first one that is not in a sealed segment or safe."""
        log = state.log
        # A row that got its offset long after its record may have it by one that is not safe yet.
        safe_end = state.visible_end if state.commits else log.next_offset
        start = log.row_from(max(state.stream_end, log.first_offset)) - log.base
        for index in range(start, min(len(log), start + MOVE_BLOCKS_MAX - len(blocks))):
            lsn = Lsn(log.lsns[index])
            location = self._owner.journal.locate(lsn) if lsn <= last else None
            first, end = log.span(log.base + index)
            if location is None or end > safe_end or self._mending.knows(Damaged(lsn, state.id, first)):
                return
            blocks.append(MoveBlock(lsn, state.id, Offset(first), end - first, log.append_times[index], location))

    def _run_move(self, job: MoveJob) -> Moved | None:
        try:
            return run_move(job, self._own_reader, self._owner.streams)
        except (StaleLocation, StorageFull):
            return None

    def _moved(self, done: Moved | None) -> None:
        self._moving = False
        if done is None:
            self._moved_to = 0
            return
        for block, problem in done.damaged:
            self._mending.mend(Damaged(block.lsn, block.stream_id, int(block.first_offset)), problem)
            self._moved_to = 0
        for stream, end in done.end_offsets.items():
            state = self._owner.manager.directory.by_id.get(stream)
            if state is not None:
                state.stream_end = max(state.stream_end, int(end))
        for lsn in done.lsns:
            self._owner.journal.release(Lsn(lsn))
        self._progress()

    def close(self) -> None:
        self._own_reader.close()
