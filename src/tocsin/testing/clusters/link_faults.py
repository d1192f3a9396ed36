"""The network between nodes: each link is one direction of two nodes, and has faults of its own."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from tocsin.testing.clusters.fabric import Link
from tocsin.testing.clusters.fault_kinds import FaultKinds
from tocsin.testing.fault_script import Kind


class LinkFaults(FaultKinds):
    active = True
    """Until the faults are over."""

    def kinds(self) -> dict[str, Kind]:
        return {
            "part": self._part, "isolate": self._isolate, "sever": self._sever, "bridge": self._bridge,
            "cut": self._cut, "drop": self._drop, "fill": self._fill, "flap": self._flap, "mute": self._mute,
            "lag": self._lag, "mend": self._mend,
        }  # fmt: skip

    def _for_a_while(self, random: Random, links: Collection[Link]) -> str:
        return f"{_text(links)} for {self.later(random, self.world.fabric.mend, links):.3f} s"

    def _part(self, random: Random) -> str:
        one, other = _halves(sorted(self.world.hosts), random)
        return self._for_a_while(random, self.world.fabric.part(one, other))

    def _isolate(self, random: Random) -> str:
        node = random.choice(self.hosts()).number
        others = [other for other in self.world.hosts if other != node]
        return self._for_a_while(random, self.world.fabric.part([node], others))

    def _sever(self, random: Random) -> str:
        """Two nodes do not hear each other, though everybody else hears both."""
        one, other = random.sample(sorted(self.world.hosts), 2)
        return self._for_a_while(random, self.world.fabric.part([one], [other]))

    def _bridge(self, random: Random) -> str:
        """Two halves, and one node that hears both."""
        nodes = sorted(self.world.hosts)
        nodes.remove(random.choice(nodes))
        one, other = _halves(nodes, random)
        return self._for_a_while(random, self.world.fabric.part(one, other))

    def _cut(self, random: Random) -> str:
        """One direction only."""
        nodes = sorted(self.world.hosts)
        senders = random.sample(nodes, random.randint(1, len(nodes) - 1))
        return self._for_a_while(random, self.world.fabric.cut(senders, [random.choice(nodes)]))

    def _flap(self, random: Random) -> str:
        """Some links of one node, each on its own, are cut and whole and cut again."""
        links, scale = self._some_links(random), random.choice((0.3, 2.0, 5.0))
        for link in links:
            at = 0.0
            for _ in range(random.choice((1, 1, 3))):
                length = scale * random.random()
                self.timeline.after(at, None, self._cut_link, link)
                self.timeline.after(at + length, None, self.world.fabric.mend, [link])
                at += length + 0.5 * random.random()
        return f"{_text(links)}, up to {scale} s each"

    def _cut_link(self, link: Link) -> None:
        if self.active:
            self.world.fabric.cut([link[0]], [link[1]])

    def _mute(self, random: Random) -> str:
        """A node hears the others, and hardly anybody hears it; for about as long as one waits for an answer."""
        node = self.proposer(random).number
        links = [link for link in self._links_of(node) if link[0] == node and random.random() < 0.8]
        seconds = random.choice((0.5, 2.0)) * (0.5 + 0.5 * random.random())
        for sender, receiver in links:
            self.world.fabric.cut([sender], [receiver])
        self.timeline.after(seconds, None, self.world.fabric.mend, links)
        return f"{_text(links)} for {seconds:.3f} s"

    def _lag(self, random: Random) -> str:
        links, seconds = self._some_links(random), random.choice((0.05, 0.3, 1.0)) * random.random()
        self.world.fabric.lag(links, seconds)
        return f"{seconds:.3f} s on {self._for_a_while(random, links)}"

    def _some_links(self, random: Random) -> list[Link]:
        links, many = self._links_of(self.proposer(random).number), random.choice((0.2, 0.4, 0.8))
        return [link for link in links if random.random() < many] or [random.choice(links)]

    def _links_of(self, node: int) -> list[Link]:
        """With each other node, there and back."""
        return [link for other in sorted(self.world.hosts) if other != node for link in ((node, other), (other, node))]

    def _mend(self, random: Random) -> str:
        """Not a fault, but the end of some: whoever was cut off is back in the middle of what was done about it."""
        self.world.fabric.mend()
        return "all links"

    def _drop(self, random: Random) -> str:
        seconds = random.random()
        self.world.fabric.drop_some(seconds)
        return f"for {seconds:.3f} s"

    def _fill(self, random: Random) -> str:
        seconds = random.choice((0.1, 1.0, 3.0)) * random.random()
        self.world.fabric.fill_some(seconds)
        return f"for {seconds:.3f} s"


def _halves(nodes: list[int], random: Random) -> tuple[list[int], list[int]]:
    one = [node for node in nodes if random.random() < 0.5]
    return one, [node for node in nodes if node not in one]


def _text(links: Collection[Link]) -> str:
    return " ".join(f"{sender}>{receiver}" for sender, receiver in sorted(links))
