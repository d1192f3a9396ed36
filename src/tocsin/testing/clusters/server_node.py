"""A whole server in one process, as a node of a simulation: the real broker on a simulated disk."""

from __future__ import annotations

from contextlib import suppress

from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.message_manager.machine import Settings as ManagerSettings
from tocsin.model.errors import TocsinError
from tocsin.model.limits import KIB
from tocsin.node.broker import Broker
from tocsin.node.storage import Storage
from tocsin.testing.clusters.lines import Exchange
from tocsin.testing.clusters.timeline import Being, Timeline
from tocsin.testing.clusters.workers import DiskSpeed, SimulatedWorkers
from tocsin.testing.disk import Fault, SeededRandom, SimulatedCrash, SimulatedDisk
from tocsin.testing.strict_faults import StrictFaults

SECRET = b"the secret of all simulated ones"
_SEGMENT_BYTES = 16 * KIB
_SNAPSHOT_BYTES = 24 * KIB
_TICK_SECONDS = 0.5
_CRASH_WITHIN = 8
"""Operations of the disk, from the crash on, one of which is its last."""


class ServerNode(Being):
    def __init__(self, timeline: Timeline, exchange: Exchange, name: str, clients: ClientSettings) -> None:
        super().__init__(timeline)
        self.name = name
        self._exchange = exchange
        self._clients = clients
        self.disk = SimulatedDisk()
        self.speed = DiskSpeed()
        exchange.listen(name, self)

    # ---- lives

    def start(self) -> None:
        self.begin_life()
        random = SeededRandom(self.life)
        storage = Storage(self.disk, random, _SEGMENT_BYTES, _SNAPSHOT_BYTES)
        manager = storage.open(ManagerSettings(faults=StrictFaults()), self.now(), self.wall())
        login = Login(SECRET, random.bytes, None)
        self.broker = Broker(storage, manager, _NodeClock(self), self._clients, login, Identities(1, 1, self.life))
        self._workers = SimulatedWorkers(self, self.speed, storage.recovered.writer.write, self._failed)
        storage.attach(self._workers, self._durable, self._soon)
        self._planned = False
        self._wake_at = float("inf")
        self._soon()
        self._tick()

    def _failed(self, error: TocsinError) -> None:
        raise error

    def stop(self, *, power: bool) -> None:
        """The process is killed, or its machine loses its power: then what was not synced may be gone, too."""
        self.end_life()
        random = self.timeline.random
        if self._workers.under_way:
            # One of the disk threads was in the middle of its job.
            self.disk.faults[self.disk.operations + random.randrange(_CRASH_WITHIN)] = Fault.CRASH
            with suppress(SimulatedCrash):
                random.choice(self._workers.under_way)()
        if power:
            self.disk = self.disk.crash(random)
        else:
            self.disk.restart()
        self._exchange.died(self, silently=power)

    # ---- the server's end of lines

    def connected(self, connection: int, peer: str) -> None:
        self.broker.connected(connection, peer)
        self._soon()

    def received(self, connection: int, data: bytes) -> None:
        self.broker.received(connection, data)
        self._soon()

    def disconnected(self, connection: int) -> None:
        self.broker.disconnected(connection)
        self._soon()

    # ---- turns

    def _durable(self) -> None:
        self.broker.durable()
        self._turn()

    def _soon(self) -> None:
        if not self._planned:
            self._planned = True
            self.timeline.after(0.000_05, self, self._turn)

    def _turn(self) -> None:
        self._planned = False
        more = self.broker.pump()
        for connection, parts in self.broker.take_out():
            self._exchange.reply(connection, b"".join(parts))
        for connection in self.broker.take_closing():
            self._exchange.close(connection)
        if more:
            self._soon()
        self._arm(self.broker.next_deadline())

    def _arm(self, deadline: float | None) -> None:
        if deadline is not None and deadline < self._wake_at:
            self._wake_at = deadline
            self.timeline.at(self.clock.world(deadline) + 1e-6, self, self._on_time, deadline)

    def _on_time(self, deadline: float) -> None:
        if deadline == self._wake_at:
            self._wake_at = float("inf")
            self.broker.tick()
            self._soon()

    def _tick(self) -> None:
        self.timeline.after(_TICK_SECONDS, self, self._tick)
        self.broker.tick()
        self._soon()


class _NodeClock:
    """The Clock port: a node's own."""

    def __init__(self, being: Being) -> None:
        self.now, self.wall = being.now, being.wall
