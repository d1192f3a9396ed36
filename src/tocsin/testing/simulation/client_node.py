"""A simulated client manager with producers that send until they are confirmed (D1), behind its gate (R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.cluster.register_messages import CommitSeen
from tocsin.replication.data_pool import digest_of
from tocsin.replication.gate import EpochGate
from tocsin.testing.simulation.state import reference
from tocsin.testing.simulation.traffic import Confirm, Data, Deliver
from tocsin.testing.simulation.voter_node import SimulatedNode

if TYPE_CHECKING:
    from tocsin.testing.simulation.world import World

_WINDOW = 4
_RESEND_SECONDS = 0.5
_CHANNEL = 1


class ClientNode(SimulatedNode):
    """One producer of its own, whose number is the node's."""

    def __init__(self, world: World, node: int, publish_seconds: float) -> None:
        super().__init__(world, node)
        self._publish_seconds = publish_seconds
        self._gate = EpochGate()
        self.sequence = 0
        self.unconfirmed: dict[int, Data] = {}
        self.publishing = True

    def start(self) -> None:
        super().start()
        self._publish()
        self._resend()

    def _publish(self) -> None:
        if not self.publishing:
            return
        if len(self.unconfirmed) < _WINDOW:
            self.sequence += 1
            data = b"%d/%d" % (self.node, self.sequence)
            name = reference(self.node, self.sequence, digest_of(data))
            self.unconfirmed[self.sequence] = Data(self.node, self.sequence, name, data)
            self._send(self.unconfirmed[self.sequence])
        pause = self._publish_seconds * 2 * self.world.random.random()
        self.world.after(pause, self, self._publish)

    def _resend(self) -> None:
        for message in list(self.unconfirmed.values()):
            self.world.stats.resent += 1
            self._send(message)
        self.world.after(_RESEND_SECONDS, self, self._resend)

    def _send(self, message: Data) -> None:
        for member in self.world.settings.members:
            self.world.network.send(self.node, member, message)

    def receive(self, sender: int, message: object) -> None:
        if not isinstance(message, Confirm | Deliver) or not self._gate.passes(_CHANNEL, message.epoch):
            return
        self.world.checkers.admitted(self.node, message.epoch)
        if isinstance(message, Confirm):
            self.unconfirmed.pop(message.sequence, None)
            if message.lsn:
                self._tell_voters(message)

    def _tell_voters(self, message: Confirm) -> None:
        """R11: what was confirmed here no later primary may lack."""
        self.world.checkers.told(message)
        for voter in self.world.settings.voters:
            self.world.network.send(self.node, voter, CommitSeen(message.epoch, message.lsn))
