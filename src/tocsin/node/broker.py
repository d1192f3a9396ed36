"""One server without its sockets: a client manager and a message manager joined by a bus, and the storage under them.

Whoever drives it calls an event method and then `pump`, which moves commands, replies and disk jobs until nothing is
left to do now; then it sends what is in `out`. The same object runs under the real loop, embedded, and in simulation.
"""

from __future__ import annotations

from typing import Any

from tocsin.bus.memory import MemoryBus
from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.machine import ClientManager
from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.cluster.commands import Command, Reply
from tocsin.message_manager.machine import MessageManager
from tocsin.model.values import Bytes
from tocsin.node.storage import Storage
from tocsin.runtime.ports import Clock
from tocsin.runtime.slewed_clock import SlewedClock

CLIENT_MANAGER = "client manager"
MESSAGE_MANAGER = "message manager"


class Broker:
    def __init__(
        self, storage: Storage, manager: MessageManager, clock: Clock, settings: ClientSettings, login: Login,
        identities: Identities,
    ) -> None:  # fmt: skip
        self.storage = storage
        self.manager = manager
        self.node = identities.node
        self._faults = settings.faults
        self.clients = ClientManager(settings, login, identities)
        self.clients.status = self._status
        self._clock = clock = SlewedClock(clock)
        self._bus = MemoryBus()
        self._bus.join(MESSAGE_MANAGER, self._commanded)
        self._bus.join(CLIENT_MANAGER, self._replied)
        self._now = clock.now()
        self._wall = clock.wall()

    def _commanded(self, sender: str, command: Command) -> None:
        self.manager.handle(sender, command, self._now, self._wall)

    def _replied(self, sender: str, reply: Reply) -> None:
        self.clients.answered(reply, self._now)

    def _status(self) -> dict[str, Any]:
        """A server by itself is a group of one."""
        node = self.node
        committed, last = int(self.manager.ledger.journal.durable_lsn), self.manager.ledger.last_lsn()
        member = {
            "node": node, "role": "primary", "state": "up", "applied": committed, "last": last,
            "damaged": len(self.storage.mending.lost), "mended": self.storage.mending.mended,
        }  # fmt: skip
        group = {
            "group": 1, "primary": node, "epoch": 0, "linked": True, "in_sync": [node], "committed": committed,
            "last": last, "destinations": len(self.manager.directory.by_id), "members": [member],
        }  # fmt: skip
        return {"groups": [group], "client_managers": [{"node": node, "state": "up", "faults": self._faults.count}]}

    # ---- events

    def connected(self, connection: int, peer: str, near: bool = False, over_tls: bool = False) -> None:
        self.clients.connected(connection, peer, self._clock.now(), near, over_tls)

    def received(self, connection: int, data: bytes) -> int:
        return self.clients.received(connection, data, self._clock.now())

    def disconnected(self, connection: int) -> None:
        self.clients.disconnected(connection, self._clock.now())

    def durable(self) -> None:
        self.manager.durable(self._clock.now(), self._clock.wall())

    def tick(self) -> None:
        now = self._clock.now()
        wall = self._clock.wall()
        self.clients.tick(now, wall)
        self.manager.tick(now, wall)
        self.storage.tick(now)

    def next_deadline(self) -> float | None:
        return self.manager.next_deadline()

    # ---- work

    def pump(self) -> bool:
        """Moves everything that can move; True when there is more work than one turn should do."""
        more = self._turn()
        while self.storage.pump():
            self.manager.durable(self._now, self._wall)
            more |= self._turn()
            if not self.storage.has_jobs:
                break
        return more or self.clients.has_commands

    def _turn(self) -> bool:
        """Commands to the message manager, its work, replies back to the clients."""
        self._now, self._wall = self._clock.now(), self._clock.wall()
        clients, manager, bus = self.clients, self.manager, self._bus
        commands = clients.take_commands()
        if commands:
            for command in commands:
                bus.send(CLIENT_MANAGER, MESSAGE_MANAGER, command)
            bus.deliver()
        more = manager.run()
        replies = manager.take_replies()
        if replies:
            for receiver, reply in replies:
                bus.send(MESSAGE_MANAGER, receiver, reply)
            bus.deliver()
            clients.flush(self._now)
        return more

    def take_out(self) -> list[tuple[int, list[Bytes]]]:
        """What is to be sent. Made while the disk was writing what it speaks of; so that is waited for here."""
        return self.clients.take_out() if self.storage.finish() else []

    def take_closing(self) -> list[int]:
        return self.clients.take_closing()
