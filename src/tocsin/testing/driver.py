"""A whole server without sockets, threads or real time: machines run because a test says so.

The broker is the real one, on a simulated disk and a virtual clock. `settle` runs it until nothing is left to do now,
`advance` lets time pass from deadline to deadline, `crash` gives the server that comes up on the disk after a power
loss. `slow_disk` holds group commits back, so that a test can see what happens before anything is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.journal.jobs import WriteJob, Written
from tocsin.journal.writer import JournalWriter
from tocsin.message_manager.machine import MessageManager
from tocsin.message_manager.machine import Settings as ManagerSettings
from tocsin.model.limits import KIB, MIB
from tocsin.node.broker import Broker
from tocsin.node.storage import Storage
from tocsin.node.workers import Done
from tocsin.testing.clock import VirtualClock
from tocsin.testing.disk import SeededRandom, SimulatedDisk
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.scram import Credentials

_TURNS_MAX = 100_000
"""A server that still has work after this many turns is going round in circles."""
_TICK_SECONDS = 0.25
_TICK_SECONDS_MIN = 0.001
_TICKS_MAX = 1_000
"""Regular ticks in one `advance`: hours pass in longer strides."""
_NO_HEARTBEAT = 1e9


@dataclass(slots=True)
class Setup:
    """How the server is configured; the same for every life of it."""

    segment_bytes: int = 256 * KIB
    snapshot_bytes: int = 64 * MIB
    manager: ManagerSettings = field(default_factory=ManagerSettings)
    clients: ClientSettings = field(default_factory=lambda: ClientSettings(heartbeat=_NO_HEARTBEAT))
    find_user: Callable[[str], Credentials | None] | None = None
    secret: bytes = b"the node's own secret, 32 bytes!"
    at_once: bool = False
    """Commits are begun in the turn that makes them, as a server does on a quick disk."""


class DeferredWorkers:
    """Does a turn's jobs when `settle` is called: after the clients have got what the turn sent, as threads would.

    While `slow` is set, commits wait in `held`.
    """

    def __init__(self, write: Callable[[WriteJob], Written]) -> None:
        self._write = write
        self._jobs: list[tuple[Callable[[], Any], Done]] = []
        self.slow = False
        self.held: list[tuple[WriteJob, Callable[[Written], None]]] = []

    def write(self, job: WriteJob, done: Callable[[Written], None]) -> Written | None:
        if self.slow:
            self.held.append((job, done))
        else:
            self._jobs.append((lambda: self._write(job), done))
        return None

    def finish(self) -> bool:
        return True

    def sync(self, job: Callable[[], Any], done: Done) -> None:
        self._jobs.append((job, done))

    def read(self, job: Callable[[], Any], done: Done) -> None:
        self._jobs.append((job, done))

    upkeep = vote = read

    def catch_up(self) -> None:
        held, self.held = self.held, []
        for job, done in held:
            DeferredWorkers.write(self, job, done)

    def settle(self) -> bool:
        """Does the jobs and reports them; says whether there were any."""
        jobs, self._jobs = self._jobs, []
        for job, done in jobs:
            done(job())
        return bool(jobs)


class AtOnceWorkers(DeferredWorkers):
    """Commits are begun at once, and waited for before anything leaves."""

    def __init__(self, writer: JournalWriter) -> None:
        super().__init__(writer.write)
        self._writer = writer

    def write(self, job: WriteJob, done: Callable[[Written], None]) -> Written | None:
        return super().write(job, done) if self.slow else self._writer.begin(job)

    def finish(self) -> bool:
        self._writer.finish()
        return True


class Driver:
    """One life of a server. The next one begins with `crash`, `kill` or `stop`, on the same clock."""

    def __init__(
        self,
        setup: Setup | None = None,
        disk: SimulatedDisk | None = None,
        clock: VirtualClock | None = None,
        boot: int = 1,
    ) -> None:
        self.setup = setup or Setup()
        self.disk = disk or SimulatedDisk()
        self.clock = clock or VirtualClock()
        self.boot = boot
        self.clients: dict[int, ScriptedClient] = {}
        self._connections = 0
        random = SeededRandom(boot)
        self.storage = Storage(self.disk, random, self.setup.segment_bytes, self.setup.snapshot_bytes)
        manager = self.storage.open(self.setup.manager, self.clock.now(), self.clock.wall())
        login = Login(self.setup.secret, random.bytes, self.setup.find_user)
        identities = Identities(1, 1, boot)
        self.broker = Broker(self.storage, manager, self.clock, self.setup.clients, login, identities)
        writer = self.storage.recovered.writer
        self.workers = AtOnceWorkers(writer) if self.setup.at_once else DeferredWorkers(writer.write)
        self.storage.attach(self.workers, self.broker.durable, lambda: None)
        self.settle()

    @property
    def manager(self) -> MessageManager:
        return self.broker.manager

    # ---- clients

    def connect(
        self,
        client_id: str | None = None,
        *,
        resume: ScriptedClient | None = None,
        login: tuple[str, str] | None = None,
    ) -> ScriptedClient:
        """A client that has logged in; with `resume` it takes over what that one left."""
        client = self.dial()
        client.hello(client_id, resume, login)
        return client

    def dial(self) -> ScriptedClient:
        """A bare connection: the test sends the first frame."""
        self._connections += 1
        client = ScriptedClient(self, self._connections)
        self.clients[client.number] = client
        self.broker.connected(client.number, f"test:{client.number}")
        self.settle()
        return client

    def receive(self, connection: int, data: bytes) -> None:
        """Bytes from a client, and everything that follows from them."""
        self.broker.received(connection, data)
        self.settle()

    def hang_up(self, client: ScriptedClient) -> None:
        """The connection breaks; the server may still hold what the client had."""
        client.open = False
        self.broker.disconnected(client.number)
        self.clients.pop(client.number, None)
        self.settle()

    # ---- turns

    def settle(self) -> None:
        """Runs until nothing is left to do now."""
        for _ in range(_TURNS_MAX):
            more = self.turn()
            if not self.workers.settle() and not more:
                return
        raise AssertionError(f"The server had work for {_TURNS_MAX} turns and was not done.")

    def turn(self) -> bool:
        """One turn of the loop; True when there is more to do."""
        more = self.broker.pump()
        for connection, parts in self.broker.take_out():
            client = self.clients.get(connection)
            if client is not None:
                client.feed(b"".join(parts))
        for connection in self.broker.take_closing():
            client = self.clients.pop(connection, None)
            if client is not None:
                client.open = False
                self.broker.disconnected(connection)
        return more

    def advance(self, seconds: float) -> None:
        """Lets time pass, from deadline to deadline, with the regular ticks of a server in between."""
        end = self.clock.now() + seconds
        regular = max(_TICK_SECONDS, seconds / _TICKS_MAX)
        while (left := end - self.clock.now()) > 0:
            deadline = self.broker.next_deadline()
            step = regular if deadline is None else max(_TICK_SECONDS_MIN, deadline - self.clock.now())
            self.clock.advance(min(left, regular, step))
            self.broker.tick()
            self.settle()

    @contextmanager
    def slow_disk(self) -> Iterator[None]:
        """Inside, nothing becomes durable; at the end all of it does."""
        self.workers.slow = True
        yield
        self.workers.slow = False
        self.workers.catch_up()
        self.settle()

    # ---- the end of this life, and the next one

    def crash(self, random: Random | None = None) -> Driver:
        """The server after a power loss."""
        return self._next(self.disk.crash(random or Random(0)))

    def kill(self) -> Driver:
        """The server after its process was killed: what it wrote is there, synced or not."""
        self.disk.restart()
        return self._next(self.disk)

    def stop(self) -> Driver:
        """A clean stop with a snapshot, and the next start."""
        self.manager.settle_reserves()
        self.settle()
        self.storage.begin_snapshot()
        self.settle()
        assert self.storage.idle and not self.storage.snapshotting
        self.storage.close()
        return self._next(self.disk)

    def snapshot(self) -> None:
        self.storage.begin_snapshot()
        self.settle()
        assert not self.storage.snapshotting

    def _next(self, disk: SimulatedDisk) -> Driver:
        for client in self.clients.values():
            client.open = False
        return Driver(self.setup, disk, self.clock, self.boot + 1)

    def show(self, destination: str) -> dict[str, Any]:
        """What the server says about a destination, asked by a client of its own."""
        client = self.connect()
        fields = client.request("destination.show", destination=destination)
        client.goodbye()
        return fields
