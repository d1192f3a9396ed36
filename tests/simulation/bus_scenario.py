"""One run of a small cluster on a bad network, from one seed, with everything the bus promises checked.

The sender counts both members of the group, so they must get everything: a loss of sync of theirs is a broken promise
as long as they count and live. Observers may lose sync, and are told.
"""

from __future__ import annotations

from random import Random

from tocsin.bus.machine import BusSettings, MemberState, Reason, Stream, WindowSize, group_in, group_out, to_node
from tocsin.runtime.aead import AesGcm
from tocsin.testing.bus_cluster import BrokenPromise, BusCluster, BusNode, manager_of_clients, member_of_group
from tocsin.testing.network import Conditions

SECRET = b"a secret that only this test has"
IN, OUT = group_in(1), group_out(1)
SMALL = BusSettings(data=WindowSize(256, 120_000, 30_000, overwrites=False), window_bytes_min=30_000)
BUFFERED_BYTES_MAX = 30_000_000
MANAGER, MEMBERS, OBSERVER = 1, (2, 3), 4
QUIET_SECONDS_MAX = 60.0


class Scenario:
    """`sealed` is the real cipher; without it the same runs in half the time."""

    def __init__(self, seed: int, conditions: Conditions | None = None, *, sealed: bool = False) -> None:
        self.random = Random(seed)
        conditions = conditions or Conditions(
            loss=self.random.choice((0.0, 0.05, 0.3)),
            duplication=self.random.choice((0.0, 0.05)),
            reordering=self.random.choice((0.0, 0.1)),
        )
        secret, suite = (SECRET, AesGcm()) if sealed else (None, None)
        self.cluster = BusCluster(seed, conditions, settings=SMALL, secret=secret, suite=suite)
        self.manager = self.cluster.start(MANAGER, manager_of_clients())
        self.members = [self.cluster.start(node, member_of_group()) for node in MEMBERS]
        self.observer = self.cluster.start(OBSERVER, member_of_group())
        self.wait_until_up()
        self.manager.bus.count(IN, MEMBERS)
        for member in self.members:
            member.bus.count(OUT, [MANAGER])

    @property
    def nodes(self) -> list[BusNode]:
        return [self.manager, *self.members, self.observer]

    def wait_until_up(self) -> None:
        def all_up() -> bool:
            there = {(node.node, node.boot) for node in self.nodes}
            known = {
                (node.node, node.boot): {(member.node, member.boot) for member in node.bus.members(1)}
                for node in self.nodes
            }
            manager = (MANAGER, self.manager.boot)
            group = there - {manager}
            return known[manager] >= group and all(known[node] == there - {node} for node in group)

        if not self.cluster.run(30.0, all_up):
            raise BrokenPromise("The nodes do not find each other.")

    def send_some(self, count: int) -> None:
        """Messages of all sizes, on all ways; the sender waits when it is told to."""
        for _ in range(count):
            length = self.random.choice((8, 50, 900, 3_000, 20_000))
            self.manager.send(IN, length)
            if self.random.random() < 0.2:
                self.manager.send(IN, 40, Stream.CONTROL)
            member = self.random.choice(self.members)
            member.send(self.random.choice((OUT, IN, to_node(1, MANAGER))), length // 4)
            if self.random.random() < 0.3:
                self.cluster.run(self.random.random() * 0.01)
                self.check_bounds()

    def disturb(self) -> None:
        """Something short of a failure: a pause of a receiver, an observer that is cut off, a short cut."""
        kind = self.random.choice(("hold", "observer", "short cut", "one way"))
        if kind == "hold":
            held = self.random.choice(self.members)
            held.bus.hold_back(True, self.cluster.now)
            self.send_some(10)
            self.cluster.run(self.random.random())
            held.bus.hold_back(False, self.cluster.now)
            return
        if kind == "observer":
            self.cluster.network.partition([OBSERVER], [MANAGER, *MEMBERS])
        elif kind == "short cut":
            self.cluster.network.partition([MANAGER], [MEMBERS[0]])
        else:
            self.cluster.network.cut(self.random.choice(MEMBERS), MANAGER)
        self.send_some(10)
        self.cluster.run(0.4 if kind != "observer" else 2.0)
        self.cluster.network.heal()

    def check_bounds(self) -> None:
        for node in self.nodes:
            if node.bus.buffered_bytes() > BUFFERED_BYTES_MAX:
                raise BrokenPromise(f"Node {node.node} keeps {node.bus.buffered_bytes():,} bytes.")

    def finish(self) -> None:
        """The network is healed; everything must now come to all that count, and to nobody twice."""
        self.cluster.network.heal()
        addresses = [(self.manager, IN), *((member, address) for member in self.members for address in (IN, OUT))]
        if not self.cluster.run(
            QUIET_SECONDS_MAX, lambda: all(node.bus.pending(address) == 0 for node, address in addresses)
        ):
            raise BrokenPromise("What was sent does not come to an end.")
        self.cluster.run(1.0)
        for member in self.members:
            self.check_complete(member, self.manager)
            if self.manager.boot > 1:
                # A manager that came back began in the middle of what the group sends.
                continue
            if self.manager.received_from(member, OUT) != list(range(1, member.sent(OUT) + 1)):
                raise BrokenPromise(f"The manager lacks messages of {member.node}.")

    def check_complete(self, receiver: BusNode, sender: BusNode) -> None:
        for stream in Stream:
            received, sent = receiver.received_from(sender, IN, stream), sender.sent(IN, stream)
            if received != list(range(1, sent + 1)):
                raise BrokenPromise(f"Node {receiver.node} has {len(received)} of {sent} messages of {stream.name}.")
        if receiver.losses_from(sender, IN):
            raise BrokenPromise(f"Node {receiver.node} counts and has lost sync.")


def run_quietly(seed: int, *, sealed: bool = False) -> Scenario:
    """Loss, repetition and disorder, and disturbances that nobody should die of."""
    scenario = Scenario(seed, sealed=sealed)
    for _ in range(4):
        scenario.send_some(15)
        scenario.disturb()
    scenario.finish()
    return scenario


def run_with_restarts(seed: int) -> Scenario:
    """Beside that, the observer and the manager die and come back; what the dead had is no longer owed."""
    scenario = Scenario(seed)
    cluster, boot = scenario.cluster, 1
    for _ in range(3):
        scenario.send_some(10)
        boot += 1
        cluster.kill(OBSERVER)
        scenario.observer = cluster.start(OBSERVER, member_of_group(), boot=boot)
        if scenario.random.random() < 0.5:
            cluster.kill(MANAGER)
            cluster.run(scenario.random.random() * 2)
            scenario.manager = cluster.start(MANAGER, manager_of_clients(), boot=boot)
            scenario.wait_until_up()
            scenario.manager.bus.count(IN, MEMBERS)
            for member in scenario.members:
                check_restart_was_seen(member, boot)
        scenario.disturb()
        scenario.wait_until_up()
    scenario.finish()
    return scenario


def check_restart_was_seen(member: BusNode, boot: int) -> None:
    """The end of the earlier incarnation is told before the begin of the later one."""
    changes = [change for change in member.changes if change.node == MANAGER]
    begin = next(at for at, change in enumerate(changes) if (change.state, change.boot) == (MemberState.UP, boot))
    end = changes[begin - 1]
    if end.state is not MemberState.DOWN or end.boot >= boot or end.reason not in (Reason.RESTARTED, Reason.SILENT):
        raise BrokenPromise(f"Node {member.node} did not notice that the manager was restarted.")
