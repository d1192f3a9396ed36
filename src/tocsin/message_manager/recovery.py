"""State from a snapshot and the records behind it.

Each section of a snapshot has its own LSN; a record counts for a destination only when it is younger than that. Records
are applied by the same methods that applied them when they were written.

A server that comes up reads all of it, then calls `finish`. A backup never ends: it loads, says `locate`, and follows
the records of its group; with a ledger, what nobody needs any more is released as it goes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from tocsin.journal.snapshot import Snapshot
from tocsin.message_manager.destination import DestinationState, Removal
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.draining import apply_finish, apply_release, apply_take
from tocsin.message_manager.ledger import DropStream, Ledger
from tocsin.message_manager.records import (
    DELAYED,
    STAGED,
    RangesRecord,
    RecordKind,
    StoredBlock,
    read_due,
    read_left_out,
    read_map,
    read_ranges,
    read_reserve,
    read_stored,
)  # fmt: skip
from tocsin.message_manager.snapshots import DESTINATION, DIRECTORY, load_destination, load_directory
from tocsin.message_manager.staging import apply_commit, apply_stage, apply_unstage
from tocsin.message_manager.subscribing import apply_subscribe, apply_unsubscribe
from tocsin.message_manager.view import Returned, View
from tocsin.model.batch import Block
from tocsin.model.errors import JournalDamaged
from tocsin.model.values import Bytes


class Recovery:
    """Feed it the snapshot, then every record in order, then `finish`."""

    def __init__(self, directory: Directory, now: float) -> None:
        self._directory = directory
        self.now = now
        """For what is noted about producers."""
        self.ledger: Ledger | None = None
        """Who follows a group sets it once the snapshot is loaded."""
        self._orphans: list[int] = []
        self._kinds: dict[int, Callable[[int, Bytes], None]] = {
            RecordKind.CREATE: self._create,
            RecordKind.DELETE: self._delete,
            RecordKind.PUBLISH: self._publish,
            RecordKind.DUE: self._due,
            RecordKind.FINISH: self._finish,
            RecordKind.ATTEMPT: self._attempt,
            RecordKind.RESERVE: self._reserve,
            RecordKind.SUBSCRIBE: self._subscribe,
            RecordKind.UNSUBSCRIBE: self._unsubscribe,
            RecordKind.MOVE: self._move,
            RecordKind.FORGET: self._forget,
            RecordKind.TRIM: self._trim,
            RecordKind.NAME: self._name,
            RecordKind.UNNAME: self._unname,
            RecordKind.ADOPT: self._adopt,
            RecordKind.HOLD: self._hold,
            RecordKind.SESSION: self._session,
            RecordKind.STAGE: self._stage,
            RecordKind.COMMIT: self._commit,
            RecordKind.UNSTAGE: self._unstage,
            RecordKind.DRAIN_TAKE: self._drain_take,
            RecordKind.DRAIN_FINISH: self._drain_finish,
            RecordKind.DRAIN_RELEASE: self._drain_release,
        }

    def load(self, snapshot: Snapshot) -> None:
        for section in snapshot.sections:
            if section.name == DIRECTORY:
                load_directory(self._directory, section)
            elif section.name.startswith(DESTINATION):
                load_destination(self._directory, section, self.now)

    def apply(self, lsn: int, kind: int, payload: Bytes) -> None:
        handler = self._kinds.get(kind)
        if handler is None:
            raise JournalDamaged(f"Record {lsn} has the unknown kind {kind}; a newer release may have written it.")
        handler(lsn, payload)

    def finish(self, stream_ends: dict[int, int]) -> array[int]:
        """Drops what no restart survives; returns the LSNs whose blocks are still needed from the journal."""
        for state in self._directory:
            state.forget_volatile()
        self.show_all()
        self._orphans = [stream for stream in stream_ends if stream not in self._directory.by_id]
        return self.locate(stream_ends)

    def locate(self, stream_ends: dict[int, int]) -> array[int]:
        """Notes how far topics have files of their own; returns the LSNs whose blocks are needed from the journal."""
        live = array("Q")
        for state in self._directory:
            state.stream_end = stream_ends.get(state.id, 0)
            retained = state.options.retained
            log = state.log
            for index, lsn in enumerate(log.lsns):
                if log.firsts[index] >= state.stream_end if retained else log.needed[index]:
                    live.append(lsn)
            live.extend(batch.lsn for batch in state.delayed.all())
            live.extend(state.stages.lsns())
        return live

    def show_all(self) -> None:
        """All that was applied may be seen: somebody will serve this state."""
        for state in self._directory:
            state.visible_end = state.recovered_end = state.log.next_offset
            for view in state.views.values():
                _bury_overdue(state, view)

    def begin_epoch(self, lsn: int) -> None:
        """Another member serves from this record on: non-persistent messages are gone, for everybody alike."""
        self._directory.volatile.clear()
        for state in self._directory:
            if lsn > state.lsn:
                state.forget_volatile(self.ledger)

    def drop_temporary(self, ledger: Ledger) -> None:
        """Temporary destinations died with their connections; files of deleted topics may have outlived them."""
        for stream in self._orphans:
            ledger.drop_stream(DropStream(stream, None), 0)
        for state in self._directory:
            if state.connection is not None:
                self._directory.delete(state, ledger)

    # ---- records

    def _young(self, destination: int, lsn: int) -> DestinationState | None:
        """The destination that a record is for, if it exists and its state does not have the record yet."""
        state = self._directory.by_id.get(destination)
        return state if state is not None and lsn > state.lsn else None

    def _create(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        if lsn > self._directory.lsn and fields["id"] not in self._directory.by_id:
            self._directory.apply_create(fields, lsn)

    def _delete(self, lsn: int, payload: Bytes) -> None:
        fields, directory = read_map(payload), self._directory
        if lsn > directory.lsn and fields["id"] not in directory.by_id:
            # A snapshot has its parts from one moment after another: this one ended behind the directory's.
            directory.bury(fields.get("name", ""), fields.get("incarnation", 0))
        directory.apply_delete(fields["id"], max(lsn, directory.lsn), self.ledger)

    def _name(self, lsn: int, payload: Bytes) -> None:
        if lsn > self._directory.lsn:
            self._directory.lsn = lsn
            self._directory.names.apply_assign(read_map(payload))

    def _unname(self, lsn: int, payload: Bytes) -> None:
        if lsn > self._directory.lsn:
            self._directory.lsn = lsn
            self._directory.names.apply_remove(read_map(payload))

    def _adopt(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        if self._young(fields["id"], lsn) is not None:
            self._directory.apply_adopt(fields, lsn)

    def _hold(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        state = self._young(fields["destination"], lsn)
        if state is not None:
            state.lsn = lsn
            state.holds.apply(fields)

    def _session(self, lsn: int, payload: Bytes) -> None:
        if lsn > self._directory.lsn:
            self._directory.lsn = lsn
            self._directory.apply_session(read_map(payload))

    def _publish(self, lsn: int, payload: Bytes) -> None:
        stored = read_stored(payload)
        state = self._young(stored.destination, lsn)
        if state is not None:
            block = Block(stored.block)
            if stored.first_offset == STAGED:
                self._publish_staged(state, lsn, block, stored)
                return
            delayed = stored.first_offset == DELAYED
            if not delayed:
                _check_offset(state, stored.first_offset, lsn)
            state.apply_publish(lsn, block, delayed, stored.append_time, self.now, read_left_out(stored))
            if self.ledger is not None:
                self.ledger.keep(lsn, block)
                if not delayed:
                    self._release_unneeded(state, lsn, stored.first_offset)

    def _publish_staged(self, state: DestinationState, lsn: int, block: Block, stored: StoredBlock) -> None:
        if block.stage not in state.stages.open:
            raise JournalDamaged(f"Record {lsn} is about a stage of {state.address} that is not there.")
        state.apply_staged(lsn, block, stored.append_time, self.now, read_left_out(stored))
        if self.ledger is not None:
            self.ledger.keep(lsn, block)

    def _stage(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        state = self._young(fields["destination"], lsn)
        if state is not None:
            apply_stage(state, fields, lsn)

    def _commit(self, lsn: int, payload: Bytes) -> None:
        """The epoch is the directory's, the stages are those of destinations: each may have the record already."""
        fields = read_map(payload)
        if lsn > self._directory.lsn:
            self._directory.lsn = lsn
            self._directory.epochs.apply(fields)
        for part in fields["parts"]:
            state = self._young(part["destination"], lsn)
            if state is not None:
                first, row = part["first"], state.log.end
                _check_offset(state, first, lsn)
                apply_commit(state, part, lsn, self.ledger)
                if state.options.retained and first < state.stream_end:
                    for each in range(row, state.log.end):
                        self._release_moved(state, each)

    def _release_moved(self, state: DestinationState, row: int) -> None:
        """A row may be one whose block is in a file of the topic already."""
        log = state.log
        if self.ledger is not None and log.span(row)[0] < state.stream_end:
            self.ledger.release(log.lsns[row - log.base])

    def _unstage(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        state = self._young(fields["destination"], lsn)
        if state is not None:
            apply_unstage(state, fields, lsn, self.ledger)

    def _due(self, lsn: int, payload: Bytes) -> None:
        destination, sent, first_offset, append_time = read_due(payload)
        state = self._young(destination, lsn)
        if state is None:
            return
        _check_offset(state, first_offset, lsn)
        batch = state.delayed.remove(sent)
        if batch is None:
            raise JournalDamaged(f"Record {lsn} is about a delayed batch of {state.address} that is not there.")
        state.apply_due(batch, lsn, append_time)
        self._release_unneeded(state, batch.lsn, first_offset)

    def _release_unneeded(self, state: DestinationState, lsn: int, first_offset: int) -> None:
        """The row that was just added may be one that nobody wants, or whose block is in a file of the topic."""
        log = state.log
        if state.options.retained:
            unneeded = first_offset < state.stream_end
        else:
            unneeded = log.first_offset > first_offset or not log.needed[-1]
        if self.ledger is not None and unneeded:
            self.ledger.release(lsn)

    def _finish(self, lsn: int, payload: Bytes) -> None:
        self._finish_ranges(lsn, read_ranges(payload))

    def _finish_ranges(self, lsn: int, record: RangesRecord) -> None:
        state = self._young(record.destination, lsn)
        view = state.views.get(record.view) if state is not None else None
        if state is not None and view is not None:
            state.lsn = lsn
            for start, end in record.ranges:
                view.drop_set_aside(start, end)
                state.apply_finish(view, start, end, self.ledger)

    def _attempt(self, lsn: int, payload: Bytes) -> None:
        record = read_ranges(payload)
        state = self._young(record.destination, lsn)
        view = state.views.get(record.view) if state is not None else None
        if state is None or view is None:
            return
        state.lsn = lsn
        for start, end in record.ranges:
            for row, (low, high) in state.rows_in(start, end):
                order = -state.log.priorities[row - state.log.base]
                for entry in view.drop_set_aside(low, high):
                    view.put_back(Returned(order, entry.start, entry.end, entry.attempts + 1), 0.0, 0.0)
                for first, stop in view.set_aside.missing(low, high):
                    view.put_back(Returned(order, first, stop, 1), 0.0, 0.0)

    def _reserve(self, lsn: int, payload: Bytes) -> None:
        destination, view_id, offset = read_reserve(payload)
        state = self._young(destination, lsn)
        if state is not None and view_id in state.views:
            state.lsn = lsn
            state.views[view_id].suspect_below = offset

    def _subscribe(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        state = self._young(fields["destination"], lsn)
        if state is not None:
            apply_subscribe(self._directory, state, fields, True, lsn)

    def _unsubscribe(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        state = self._young(fields["destination"], lsn)
        if state is not None and fields["view"] in state.views:
            state.lsn = lsn
            apply_unsubscribe(self._directory, state, state.views[fields["view"]], self.ledger)

    def _move(self, lsn: int, payload: Bytes) -> None:
        stored = read_stored(payload)
        target = self._young(stored.destination, lsn)
        if target is not None:
            _check_offset(target, stored.first_offset, lsn)
            target.apply_store(lsn, Block(stored.block), False, stored.append_time)
            self._release_unneeded(target, lsn, stored.first_offset)
        self._finish_ranges(lsn, read_ranges(stored.extra))

    def _forget(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        state = self._young(fields["destination"], lsn)
        if state is not None:
            state.lsn = lsn
            # A former release did not say which rows went without a word of their producers.
            state.producers.forget(fields["producer"], fields.get("used", 0))

    def _trim(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        state = self._young(fields["destination"], lsn)
        if state is not None:
            state.lsn = lsn
            state.apply_trim(fields["before"], self.ledger)
            if self.ledger is not None:
                self.ledger.drop_stream(DropStream(state.id, fields["before"]), lsn)

    def _drain_take(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        state = self._young(fields["destination"], lsn)
        if state is not None:
            apply_take(state, fields, lsn, self.now)

    def _drain_finish(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        state = self._young(fields["destination"], lsn)
        if state is not None:
            apply_finish(state, fields, lsn, self.ledger)

    def _drain_release(self, lsn: int, payload: Bytes) -> None:
        fields = read_map(payload)
        state = self._young(fields["destination"], lsn)
        if state is not None:
            apply_release(state, fields, lsn)


def _check_offset(state: DestinationState, offset: int, lsn: int) -> None:
    if offset != state.log.next_offset:
        raise JournalDamaged(
            f"Record {lsn} stores at offset {offset} of {state.address}, which ends at {state.log.next_offset}."
        )


def _bury_overdue(state: DestinationState, view: View) -> None:
    """Messages that had used up their deliveries when the server stopped go to the dead message queue now."""
    limit = state.options.redelivery_limit
    if not limit or not view.durable:
        return
    for entry in [entry for entry in view.ready if entry.attempts >= limit]:
        view.drop_set_aside(entry.start, entry.end)
        view.set_aside.add(entry.start, entry.end)
        reason = "It was delivered as often as its destination allows."
        state.removals.append(Removal(view, entry.start, entry.end, entry.attempts, reason))
