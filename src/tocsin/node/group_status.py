"""A member says what it is: every so often, and whenever its role, its epoch or the in-sync set has changed."""

from __future__ import annotations

from tocsin.bus.datagram import Stream
from tocsin.cluster.envelope import GroupStatus
from tocsin.node.outgoing import Outgoing, envelope_to
from tocsin.node.workers import Workers
from tocsin.runtime.datagrams import group_out
from tocsin.runtime.ports import Clock, Files


class StatusReports:
    def __init__(self, group: int, seconds: float, files: Files, clock: Clock) -> None:
        self._group, self._seconds, self._files, self._clock = group, seconds, files, clock
        self.next_at = clock.now()
        self.free_bytes = 0
        """As it was measured last: that is the disk's business, so it takes a moment."""
        self._measuring = False
        self._told: tuple[object, ...] = ()
        self._workers: Workers | None = None

    def attach(self, workers: Workers) -> None:
        self._workers = workers

    @property
    def due(self) -> bool:
        return self._clock.now() >= self.next_at

    def differs(self, *essence: object) -> bool:
        """Whether others believe something else: (role, epoch, in-sync set)."""
        return essence != self._told

    def tell(self, status: GroupStatus) -> Outgoing:
        self.next_at = self._clock.now() + self._seconds
        self._told = status.role, status.epoch, status.in_sync
        if self._workers is not None and not self._measuring:
            self._measuring = True
            self._workers.upkeep(self._files.free_bytes, self._measured)
        return envelope_to(group_out(self._group), status, Stream.CONTROL)

    def _measured(self, free_bytes: int) -> None:
        self._measuring, self.free_bytes = False, free_bytes
