"""What the roles of a member share: its log, what it knows to be committed, and the effects it has so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tocsin.cluster.group_config import Replica
from tocsin.cluster.register_events import Send
from tocsin.replication.data_pool import DataPool
from tocsin.replication.events import Committed, Effect
from tocsin.replication.log import GroupLog
from tocsin.replication.messages import GroupMessage
from tocsin.replication.rules import LogEnd
from tocsin.replication.settings import GroupSettings


class Unsafe(Exception):
    """Going on would break a promise; the member stops. The text says what was seen."""


class Context:
    __slots__ = ("boot", "chance", "committed", "log", "node", "out", "pool", "replica", "settings")

    def __init__(
        self, settings: GroupSettings, node: int, boot: int, log: GroupLog, chance: Callable[[], float]
    ) -> None:
        self.settings, self.node, self.boot, self.log, self.chance = settings, node, boot, log, chance
        self.replica = Replica(node, log.store)
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

    def log_end(self) -> LogEnd:
        return LogEnd(self.log.epoch_at(self.log.last_lsn), self.log.last_lsn)
