"""What the roles of a member share: its log, what it knows to be committed, and the effects it has so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tocsin.cluster.group_config import Replica
from tocsin.cluster.lives import Known, Life, Memory, Seen
from tocsin.cluster.register_events import Send
from tocsin.replication.data_pool import DataPool
from tocsin.replication.events import Committed, Effect, FoundOlder
from tocsin.replication.log import GroupLog
from tocsin.replication.messages import GroupMessage
from tocsin.replication.rules import LogEnd
from tocsin.replication.settings import GroupSettings


class Unsafe(Exception):
    """Going on would break a promise; the member stops. The text says what was seen."""


class Context:
    __slots__ = (
        "_renounced", "boot", "chance", "committed", "life", "log", "memory", "node", "out", "pool", "proven",
        "replica", "settings",
    )  # fmt: skip

    def __init__(
        self, settings: GroupSettings, node: int, boot: int, log: GroupLog, chance: Callable[[], float]
    ) -> None:
        self.settings, self.node, self.boot, self.log, self.chance = settings, node, boot, log, chance
        self.replica = Replica(node, log.store)
        self.life = Life(boot, log.starts_before, log.last_lsn)
        self.memory = Memory()
        self.proven = False
        """In this life the log was level with that of a primary: it is no older copy, whatever others remember."""
        self._renounced = False
        self.committed = log.base_lsn
        self.pool = DataPool()
        self.out: list[Effect] = []

    def send(self, receivers: tuple[int, ...], message: GroupMessage) -> None:
        self.out.append(Send(receivers, message))

    def send_all(self, sends: Sequence[Send[GroupMessage]]) -> None:
        self.out.extend(sends)

    def commit(self, lsn: int, copies: int) -> None:
        if lsn > self.committed:
            self.committed = lsn
            self.out.append(Committed(lsn, copies))

    def restart_behind(self, lsn: int) -> None:
        """A snapshot is in place: what it covers is committed, and whoever installed it has applied it."""
        self.committed = max(self.committed, lsn)

    def look_for_start(self, known: Known) -> None:
        """Whether the group has noted this start: then it need not be told of those before."""
        life = self.life
        if life.start and any(seen.replica == self.replica and seen.start == life.start for seen in known.members):
            self.log.noted(life.start)

    def renounce(self, seen: Seen) -> None:
        """The files are an older copy (R16). From now on they are another store: it is in no in-sync set, so it never
        leads and is never counted before it has everything.
        """
        if not self._renounced:
            self._renounced = True
            self.log.renew()
            self.out.append(FoundOlder(_older(self.life, seen)))

    def look_at_store(self) -> None:
        """The log may have become another store."""
        if self.log.store != self.replica.store:
            self.replica = Replica(self.node, self.log.store)

    def log_end(self) -> LogEnd:
        return LogEnd(self.log.epoch_at(self.log.last_lsn), self.log.last_lsn)


def _older(life: Life, seen: Seen) -> str:
    if not life.knows(seen.start):
        proof = f"the group has seen start {seen.start}, of which they know nothing"
    else:
        proof = f"their log ended at record {life.position}, and the group has seen record {seen.position} in it"
    return (
        f"The files are an older copy of this member's: {proof}. They count for nothing; the member joins as a new one"
        " and is filled by the others."
    )
