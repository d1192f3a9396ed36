"""The state of a member that does not serve: what its group has committed, applied in order, ready to be served."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.journal.snapshot import Snapshot
from tocsin.journal.stream import StreamStore
from tocsin.message_manager.ledger import DropStream
from tocsin.message_manager.machine import MessageManager, Settings
from tocsin.message_manager.recovery import Recovery
from tocsin.model.errors import BrokenInvariant, EnvironmentFailure
from tocsin.node.group_journal import GroupJournal
from tocsin.replication.journal_snapshot import GROUP_SECTION
from tocsin.replication.log import FILL_ANEW, NOOP, Entry


class Standby:
    """A message manager without clients. `applied`: the records up to here are in its state."""

    def __init__(self, journal: GroupJournal, settings: Settings, snapshot: Snapshot | None, now: float) -> None:
        self.journal = journal
        self.manager = MessageManager(journal, settings)
        self.applied = self._mixed_up_to = 0
        """Parts of a snapshot are from one moment after another: up to here some have records that others have not."""
        self._recovery = Recovery(self.manager.directory, now)
        if snapshot is not None:
            self._recovery.load(without_group(snapshot))
            self.applied, self._mixed_up_to = int(snapshot.lsn), int(snapshot.highest_lsn())

    @property
    def is_whole(self) -> bool:
        """Whether its state is the one behind the record `applied`."""
        return self.applied >= self._mixed_up_to

    def locate(self, streams: StreamStore) -> list[int]:
        """Which records of the journal the state needs; from now on it releases those that it needs no more."""
        ends = {stream: int(streams.end_offset(stream)) for stream in streams.streams()}
        live = self._recovery.locate(ends)
        self._recovery.ledger = self.manager.ledger
        return list(live)

    def apply(self, lsn: int, entry: Entry, now: float) -> None:
        assert lsn == self.applied + 1, "records are applied in order"
        ledger, recovery = self.manager.ledger, self._recovery
        ledger.committed = lsn
        recovery.now = now
        if entry.kind == NOOP:
            recovery.begin_epoch(lsn)
        else:
            payload = entry.parts[0] if len(entry.parts) == 1 else b"".join(entry.parts)
            try:
                recovery.apply(lsn, entry.kind, payload)
            except EnvironmentFailure:
                raise
            except Exception as error:
                raise BrokenInvariant(
                    f"Record {lsn} of the log is committed and can't be applied, so this member can't say what the"
                    f" group knows: {error!r}. {FILL_ANEW}"
                ) from error
        self.applied = lsn

    def serve(self, streams: StreamStore, now: float, wall: float) -> MessageManager:
        """This member is the primary and all of its log is applied: the state continues where the group stopped."""
        manager = self.manager
        self.journal.begin(self.applied)
        self._recovery.show_all()
        manager.ledger.clock(now, wall)
        manager.ledger.durable(self.applied)
        for stream in streams.streams():
            if stream not in manager.directory.by_id:
                # The topic was deleted just before a crash; before all was applied nobody could tell.
                manager.ledger.drop_stream(DropStream(stream, None), 0)
        manager.directory.dead_messages(manager.ledger)
        manager.resume()
        manager.ledger.stream_files = streams
        return manager


def without_group(snapshot: Snapshot) -> Snapshot:
    """The sections that describe destinations; replication has one of its own."""
    return Snapshot(snapshot.lsn, tuple(each for each in snapshot.sections if each.name != GROUP_SECTION))


def apply_up_to(standby: Standby, lsn: int, read: Callable[[int, int], tuple[Entry, ...]], now: float) -> None:
    """Before anybody else uses the log: what the snapshot knows of is committed."""
    while standby.applied < lsn:
        for entry in read(standby.applied + 1, lsn):
            standby.apply(standby.applied + 1, entry, now)
