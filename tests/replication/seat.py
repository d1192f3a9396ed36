"""A place at the table for one machine: its log in memory, its effects sorted, its disk moved by the test."""

from __future__ import annotations

from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.cluster.register_events import Send
from tocsin.replication.context import Context
from tocsin.replication.events import Effect
from tocsin.replication.log import Entry
from tocsin.replication.messages import GroupMessage
from tocsin.replication.settings import GroupSettings
from tocsin.testing.simulation.log import MemoryLog

SETTINGS = GroupSettings(members=(1, 2, 3), voters=(1, 2, 3))
REPLICAS = tuple(Replica(node, node * 10) for node in (1, 2, 3))
EPOCH = 64
CONFIG = GroupConfig(2, EPOCH, 1, REPLICAS, REPLICAS, 2)


def entry(epoch: int, number: int = 0, kind: int = 1) -> Entry:
    return Entry(epoch, kind, (b"%d" % number,))


class Seat:
    def __init__(self, node: int = 1, *epochs: int, settings: GroupSettings = SETTINGS) -> None:
        """With a durable log whose records have these epochs."""
        self.log = MemoryLog(node * 10)
        self.log.promise(max(epochs, default=0))
        for number, epoch in enumerate(epochs, start=1):
            self.log.append(entry(epoch, number))
        self.flush()
        self.context = Context(settings, node, 1, self.log, lambda: 0.5)

    def flush(self) -> None:
        self.log.flushed(self.log.pending())

    def taken(self) -> list[Effect]:
        out, self.context.out = self.context.out, []
        return out

    def sent(self) -> list[tuple[tuple[int, ...], GroupMessage]]:
        """What was sent since the last call; other effects are dropped."""
        return sent(self.taken())

    def messages(self) -> list[GroupMessage]:
        return [message for _, message in self.sent()]

    def epochs(self) -> list[int]:
        return [self.log.epoch_at(lsn) for lsn in range(self.log.base_lsn + 1, self.log.last_lsn + 1)]


def sent(effects: list[Effect]) -> list[tuple[tuple[int, ...], GroupMessage]]:
    return [(effect.receivers, effect.message) for effect in effects if isinstance(effect, Send)]
