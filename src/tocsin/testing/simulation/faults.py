"""What goes wrong, and when: each seed draws its own mix, within what the group promises to survive.

Within the promise: any loss, delay and reordering of messages, any cut of the network, any number of crashes
and pauses, disks that stall, votes that take long to write, clocks that differ by up to a tenth in speed, and the
loss of one disk at a time, as long as another one has the same records.

Where a round at the register begins, a group is about to change, and faults strike there more often than elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from random import Random

from tocsin.testing.fault_script import Kind, Moment, Strike, Striker
from tocsin.testing.simulation.member_node import MemberNode
from tocsin.testing.simulation.network import Link
from tocsin.testing.simulation.voter_node import SimulatedNode, VoterNode
from tocsin.testing.simulation.world import World

_DRIFT_MAX = 0.05
_DISK_SECONDS = 0.001
CALM = ("loss", "duplication", "spikes", "delay", "drift", "disks", "votes")
"""Conditions that a script may leave out."""


class Mix(Enum):
    DRAWN = "what the seed draws"
    ROUGH = "what is hardest on a group: no primary lives long"
    STEERED = "few faults while a group stands still, many while it changes"


class Faults:
    """Strikes again and again until `stop`, which puts everything in order."""

    def __init__(
        self, world: World, mix: Mix = Mix.DRAWN, *, script: Sequence[Strike] | None = None, calm: Collection[str] = ()
    ) -> None:
        """`script`: these faults, and no others."""
        self._world = world
        kinds = self._kinds()
        self.striker = striker = Striker(world.seed, world, kinds, script)
        random = striker.random
        possible = ["crash"] if len(world.voters) == 1 else [*kinds, "crash"]
        striker.chosen = [kind for kind in possible if random.random() < 0.5] or ["crash"]
        striker.pause = random.choice((0.5, 1.5, 4.0))
        self._conditions(random, calm)
        if len(world.voters) > 1:
            striker.steered = _STEERED
            # There are ten promotions for each change, and most of them are in vain.
            striker.steering[Moment.CHANGE] = random.choice((0.0, 0.5, 0.9))
            striker.steering[Moment.PROMOTION] = random.choice((0.0, 0.05, 0.2))
            world.moment = striker.moment
            if mix is Mix.ROUGH:
                striker.chosen = ["crash_primary", "isolate", "sever", "sever", "stall", "cut"]
                striker.pause, world.network.loss, world.network.delay = 0.5, 0.2, 0.02
            elif mix is Mix.STEERED:
                striker.chosen = ["isolate", "sever", "cut", "flap", "crash"]
                striker.pause, world.network.loss = 2.0, 0.0
                striker.steering = {Moment.CHANGE: 0.9, Moment.PROMOTION: 0.1}
        striker.start()

    def _conditions(self, random: Random, calm: Collection[str]) -> None:
        world, network = self._world, self._world.network
        loss = random.choice((0.0, 0.0, 0.02, 0.1, 0.3))
        duplication, spikes = random.choice((0.0, 0.05)), random.choice((0.0, 0.0, 0.02))
        delay, drift = random.choice((0.000_5, 0.002, 0.02)), random.choice((0.0, _DRIFT_MAX))
        network.loss = 0.0 if "loss" in calm else loss
        network.duplication = 0.0 if "duplication" in calm else duplication
        network.spikes = 0.0 if "spikes" in calm else spikes
        network.delay = 0.000_5 if "delay" in calm else delay
        world.set_clocks(0.0 if "drift" in calm else drift)
        for member in world.members:
            disk = random.choice((0.000_5, 0.002, 0.002, 0.02))
            member.disk_seconds = _DISK_SECONDS if "disks" in calm else disk
        slowest = random.choice((0.01, 0.2, 0.8))
        for voter in world.voters:
            vote = random.choice((0.001, slowest))
            voter.vote_seconds = 0.001 if "votes" in calm else vote

    def _kinds(self) -> dict[str, Kind]:
        return {
            "crash": self._crash, "crash_primary": self._crash_primary, "crash_all": self._crash_all,
            "freeze": self._freeze, "part": self._part, "cut": self._cut, "isolate": self._isolate,
            "sever": self._sever, "bridge": self._bridge, "clog": self._clog, "stall": self._stall,
            "slow_disk": self._slow_disk, "slow_votes": self._slow_votes, "flap": self._flap, "mute": self._mute,
            "ail": self._ail, "lag": self._lag, "lose_disk": self._lose_disk, "mend": self._mend,
        }  # fmt: skip

    @property
    def struck(self) -> tuple[Strike, ...]:
        return tuple(self.striker.struck)

    def stop(self) -> None:
        self.striker.stop()
        world = self._world
        world.network.heal()
        for node in world.nodes.values():
            node.paused_until = 0.0
            if not node.up:
                node.start()
        for voter in world.voters:
            voter.votes_take, voter.vote_seconds = 0.0, 0.001
        for member in world.members:
            member.stalled_until, member.disk_seconds = 0.0, _DISK_SECONDS
        for client in world.clients:
            client.publishing = False

    # ---- nodes

    def _crash(self, random: Random) -> str:
        return self._take_down(random.choice(self._world.voters), random)

    def _crash_primary(self, random: Random) -> str:
        primaries = sorted(self._world.primaries, key=lambda node: node.node)
        return "; ".join(self._take_down(node, random) for node in primaries)

    def _crash_all(self, random: Random) -> str:
        return "; ".join(self._take_down(node, random) for node in self._world.voters)

    def _take_down(self, node: SimulatedNode, random: Random) -> str:
        delay = random.choice((0.05, 1.0, 5.0)) * random.random()
        if not node.up:
            return "nobody"
        node.stop()
        self._world.after(delay, None, self._bring_up, node)
        return f"node {node.node} for {delay:.3f} s"

    def _bring_up(self, node: SimulatedNode) -> None:
        if not node.up:
            node.start()

    def _freeze(self, random: Random) -> str:
        """The process stands still: a stopped machine, a long garbage collection, SIGSTOP."""
        node = random.choice(self._world.voters)
        seconds = random.choice((0.2, 2.0, 6.0)) * random.random()
        node.paused_until = self._world.time + seconds
        return f"node {node.node} for {seconds:.3f} s"

    # ---- disks

    def _stall(self, random: Random) -> str:
        node, seconds = random.choice(self._world.members), 5.0 * random.random()
        node.stalled_until = self._world.time + seconds
        return f"node {node.node} for {seconds:.3f} s"

    def _slow_disk(self, random: Random) -> str:
        node, slow = random.choice(self._world.members), random.choice((0.05, 0.3))
        before, node.disk_seconds = node.disk_seconds, slow
        seconds = self._later(random, setattr, node, "disk_seconds", before)
        return f"node {node.node}: {slow} s each, for {seconds:.3f} s"

    def _slow_votes(self, random: Random) -> str:
        """The files of some voters take long to write. Often of the one that proposes: its disk is the busiest."""
        many, take = random.choice((0.1, 0.5, 1.0)), random.choice((0.1, 1.0, 4.0))
        voters: list[VoterNode] = [voter for voter in self._world.voters if random.random() < many]
        if self._world.proposer is not None and random.random() < 0.5:
            voters.append(self._world.proposer)
        for voter in voters:
            voter.votes_take = take
        seconds = self._later(random, self._end_slow_votes, voters)
        return f"nodes {[voter.node for voter in voters]}: up to {take} s each, for {seconds:.3f} s"

    @staticmethod
    def _end_slow_votes(voters: Sequence[VoterNode]) -> None:
        for voter in voters:
            voter.votes_take = 0.0

    def _lose_disk(self, random: Random) -> str:
        """Only of a member that others can replace, and one at a time."""
        world = self._world
        config = world.checkers.config
        candidates = [node for node in world.members if self._is_spare(node)]
        stores = {voter.voter.replica for voter in world.voters}
        if config is None or not candidates or set(config.voters) != stores or world.checkers.lost_in_sync():
            return "nobody"
        node = random.choice(candidates)
        node.stop()
        world.checkers.lose(node)
        node.lose_disk(world.new_store())
        world.after(random.random(), None, self._bring_up, node)
        return f"node {node.node}"

    def _is_spare(self, node: MemberNode) -> bool:
        """A follower of a living primary whose in-sync set, now and next, has somebody else's disk, too."""
        world = self._world
        config = world.checkers.config
        leaders = [leader.member.primary for leader in world.primaries]
        if not node.up or node in world.primaries or config is None or len(leaders) != 1:
            return False
        leader = leaders[0]
        assert leader is not None
        others = {member.node for member in world.members if member is not node}
        proposed = [each for each in world.checkers.register.proposed if each.version > config.version]
        configs = [config, leader.config, *([leader.pending] if leader.pending else []), *proposed]
        return all(others & {replica.node for replica in each.in_sync} for each in configs)

    # ---- the network

    def _later(self, random: Random, step: Callable[..., None], *arguments: object) -> float:
        seconds = random.choice((0.3, 3.0, 8.0)) * random.random()
        self._world.after(seconds, None, step, *arguments)
        return seconds

    def _for_a_while(self, random: Random, links: Collection[Link]) -> str:
        return f"{_text(links)} for {self._later(random, self._world.network.mend, links):.3f} s"

    def _part(self, random: Random) -> str:
        one, other = _halves(sorted(self._world.nodes), random)
        return self._for_a_while(random, self._world.network.part(one, other))

    def _isolate(self, random: Random) -> str:
        node = random.choice(self._world.voters).node
        others = [other for other in self._world.nodes if other != node]
        return self._for_a_while(random, self._world.network.part([node], others))

    def _sever(self, random: Random) -> str:
        """Two nodes do not hear each other, though everybody else hears both."""
        one, other = random.sample([voter.node for voter in self._world.voters], 2)
        return self._for_a_while(random, self._world.network.part([one], [other]))

    def _bridge(self, random: Random) -> str:
        """Two halves, and one node that hears both."""
        nodes = sorted(self._world.nodes)
        nodes.remove(random.choice(self._world.voters).node)
        one, other = _halves(nodes, random)
        return self._for_a_while(random, self._world.network.part(one, other))

    def _cut(self, random: Random) -> str:
        """One direction only."""
        nodes = sorted(self._world.nodes)
        senders = random.sample(nodes, random.randint(1, len(nodes) - 1))
        return self._for_a_while(random, self._world.network.cut(senders, [random.choice(self._world.voters).node]))

    def _flap(self, random: Random) -> str:
        """Some links of one node, each on its own, are cut and whole and cut again."""
        links, scale = self._some_links(random), random.choice((0.3, 2.0, 5.0))
        for link in links:
            at = 0.0
            for _ in range(random.choice((1, 1, 3))):
                length = scale * random.random()
                self._world.after(at, None, self._cut_link, link)
                self._world.after(at + length, None, self._world.network.mend, [link])
                at += length + 0.5 * random.random()
        return f"{_text(links)}, up to {scale} s each"

    def _mute(self, random: Random) -> str:
        """A node hears the others, and hardly anybody hears it; for about as long as one waits for an answer."""
        node = self._proposing(random)
        links = [link for link in self._links_of(node) if link[0] == node and random.random() < 0.8]
        seconds = random.choice((0.5, 2.0)) * (0.5 + 0.5 * random.random())
        self._world.network.cut_links(links)
        self._world.after(seconds, None, self._world.network.mend, links)
        return f"{_text(links)} for {seconds:.3f} s"

    def _ail(self, random: Random) -> str:
        """A machine is in trouble: it is hardly heard, and what its voter writes takes long."""
        node = self._proposing(random)
        voter = next(voter for voter in self._world.voters if voter.node == node)
        voter.votes_take = random.choice((0.5, 5.0))
        seconds = self._later(random, self._end_slow_votes, [voter])
        return f"votes up to {voter.votes_take} s each, for {seconds:.3f} s; {self._mute(random)}"

    def _cut_link(self, link: Link) -> None:
        if self.striker.active:
            self._world.network.cut_links([link])

    def _lag(self, random: Random) -> str:
        links = self._some_links(random)
        seconds = random.choice((0.05, 0.3, 2.0)) * random.random()
        self._world.network.lag(links, seconds)
        return f"{seconds:.3f} s on {self._for_a_while(random, links)}"

    def _some_links(self, random: Random) -> list[Link]:
        """Of the node that proposes, if one does; else of any."""
        links = self._links_of(self._proposing(random))
        many = random.choice((0.2, 0.4, 0.8))
        return [link for link in links if random.random() < many] or [random.choice(links)]

    def _proposing(self, random: Random) -> int:
        proposer = self._world.proposer
        return proposer.node if proposer is not None else random.choice(self._world.voters).node

    def _links_of(self, node: int) -> list[Link]:
        """With each other voter, there and back."""
        voters = [voter.node for voter in self._world.voters]
        return [link for other in voters if other != node for link in ((node, other), (other, node))]

    def _mend(self, random: Random) -> str:
        """Not a fault, but the end of some: whoever was cut off is back in the middle of what was done about it."""
        self._world.network.mend()
        return "all links"

    def _clog(self, random: Random) -> str:
        node = random.choice(self._world.voters).node
        self._world.network.clog(node)
        return f"node {node} for {self._later(random, self._world.network.release, node):.3f} s"


_STEERED = (
    "crash", "crash_primary", "freeze", "stall", "slow_votes", "slow_votes", "slow_votes", "flap", "flap", "mute",
    "mute", "ail", "ail", "ail", "lag", "mend", "mend",
)  # fmt: skip


def _halves(nodes: list[int], random: Random) -> tuple[list[int], list[int]]:
    one = [node for node in nodes if random.random() < 0.5]
    return one, [node for node in nodes if node not in one]


def _text(links: Collection[Link]) -> str:
    return " ".join(f"{sender}>{receiver}" for sender, receiver in sorted(links))
