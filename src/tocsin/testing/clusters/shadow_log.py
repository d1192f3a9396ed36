"""What checkers know of a member's log: a short description of every record, kept beside the real one.

It outlives the process: what was durable when a process died is what its disk must have when the next one opens it.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.journal.journal import Journal
from tocsin.model.checksum import crc32
from tocsin.node.group_log import HostedLog
from tocsin.node.group_member import GroupMember
from tocsin.replication.journal_log import JournalLog
from tocsin.replication.log import Entry
from tocsin.testing.simulation.register_checks import Violation


class Chosen(NamedTuple):
    """A record: equal ones have equal content."""

    epoch: int
    kind: int
    digest: int
    entry: Entry


def chosen(entry: Entry) -> Chosen:
    digest = 0
    for part in entry.parts:
        digest = crc32(part, digest)
    return Chosen(entry.epoch, entry.kind, digest, entry)


def same(one: Chosen, other: Chosen) -> bool:
    return one[:3] == other[:3]


class ShadowLog:
    """Of one disk."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.records: dict[int, Chosen] = {}
        self.base = self.durable = 0
        self._log: HostedLog | None = None

    def watch(self, member: GroupMember) -> None:
        """A process has opened the disk."""
        self._log = log = hosted = member._log
        self._reload(log, member)
        append, cut, replace = log.append, log.cut, log.replace

        def watched_append(entry: Entry) -> int:
            lsn = append(entry)
            self.records[lsn] = chosen(entry)
            return lsn

        def watched_cut(last_lsn: int) -> None:
            for lsn in range(last_lsn + 1, log.last_lsn + 1):
                self.records.pop(lsn, None)
            cut(last_lsn)

        def watched_replace(log: JournalLog, journal: Journal) -> None:
            replace(log, journal)
            self.durable = 0
            self.records.clear()
            self._reload(hosted, member)

        log.append = watched_append  # type: ignore[method-assign]
        log.cut = watched_cut  # type: ignore[method-assign]
        log.replace = watched_replace  # type: ignore[method-assign]

    def _reload(self, log: HostedLog, member: GroupMember) -> None:
        before = self.records
        self.records, self.base = {}, log.base_lsn
        work = member._disk.store.opened.work
        while (first := self.base + len(self.records) + 1) <= log.last_lsn:
            for number, entry in enumerate(work.read(log.plan_read(first, log.last_lsn))):
                self.records[first + number] = chosen(entry)
        for lsn in range(self.base + 1, self.durable + 1):
            known = before.get(lsn)
            found = self.records.get(lsn)
            if found is None or (known is not None and not same(found, known)):
                raise Violation("I6", f"node {self.node} has lost or changed record {lsn}, which it had made durable")

    def let_go(self) -> None:
        """The process is gone; what follows the durable part may be there or not."""
        assert self._log is not None
        self.durable = self.durable_lsn
        self._log = None

    @property
    def durable_lsn(self) -> int:
        return self._log.durable_lsn if self._log is not None else self.durable

    def has_durably(self, lsn: int, record: Chosen) -> bool:
        if lsn <= self.base:
            return True
        found = self.records.get(lsn)
        return lsn <= self.durable_lsn and found is not None and same(found, record)
