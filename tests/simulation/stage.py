"""A world that a test leads step by step, without faults of its own."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.replication.roles import Role
from tocsin.testing.simulation.member_node import MemberNode
from tocsin.testing.simulation.world import Shape, World


class Stuck(Exception):
    """What the test waits for does not happen."""


class Stage(World):
    def __init__(self, shape: Shape, *, seed: int = 1, publish_seconds: float = 0.05) -> None:
        super().__init__(seed, shape, publish_seconds=publish_seconds)
        self._send: Callable[[int, int, object], None] = self.network.send
        self._refuse: Callable[[int, int, object], bool] = lambda sender, receiver, message: False
        self.network.send = self._filtered  # type: ignore[method-assign]
        self.start()

    def member(self, node: int) -> MemberNode:
        return next(member for member in self.members if member.node == node)

    def run(self, seconds: float) -> None:
        self.run_until(self.time + seconds)

    def leader(self) -> MemberNode:
        """The primary of the newest epoch."""
        assert self.primaries, self.describe()
        return max(self.primaries, key=lambda node: node.member.epoch)

    def settle(self) -> MemberNode:
        """Until somebody leads, everybody is in sync, and messages are confirmed."""
        for _ in range(40):
            self.run(0.25)
            if self.primaries and len(self.in_sync()) == len(self.members) and self.confirmed() > 20:
                return self.leader()
        raise AssertionError(self.describe())

    def in_sync(self) -> list[int]:
        config = self.checkers.config
        assert config is not None
        return [replica.node for replica in config.in_sync]

    def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """In steps so small that nothing else happens in between."""
        end = self.time + seconds
        while not condition():
            if self.time >= end:
                raise Stuck(self.describe())
            self.run(0.002)

    def until_role(self, node: int, role: Role) -> None:
        self.until(lambda: self.member(node).up and self.member(node).member.role is role)

    def block(self, refuse: Callable[[int, int, object], bool]) -> None:
        """From now on the network loses what `refuse` is true for, given sender, receiver and message."""
        self._refuse = refuse

    def _filtered(self, sender: int, receiver: int, message: object) -> None:
        if not self._refuse(sender, receiver, message):
            self._send(sender, receiver, message)

    def cut_off(self, *nodes: int) -> None:
        """From all others, clients included."""
        self.network.part(nodes, [node for node in self.nodes if node not in nodes])

    def confirmed(self) -> int:
        return len(self.checkers.confirmed_copies)

    def progress(self, seconds: float) -> int:
        """How many messages are confirmed in that time."""
        before = self.confirmed()
        self.run(seconds)
        return self.confirmed() - before

    def finish(self) -> None:
        """Mend everything; all must be well."""
        self.network.heal()
        self.block(lambda sender, receiver, message: False)
        for node in self.nodes.values():
            node.paused_until = 0.0
            if not node.up:
                node.start()
        for member in self.members:
            member.stalled_until, member.disk_seconds = 0.0, 0.001
        for client in self.clients:
            client.publishing = False
        self.check_recovered(15.0)
