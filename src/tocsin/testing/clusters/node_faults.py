"""Nodes and programs die, stand still, and come again."""

from __future__ import annotations

from random import Random

from tocsin.testing.clusters.client import SimulatedClient
from tocsin.testing.clusters.cluster_host import ClusterHost
from tocsin.testing.clusters.fault_kinds import NOBODY, FaultKinds
from tocsin.testing.fault_script import Kind


def bring_up(host: ClusterHost) -> None:
    if not host.up:
        host.start()


class NodeFaults(FaultKinds):
    def kinds(self) -> dict[str, Kind]:
        return {
            "crash": self._crash, "crash_primary": self._crash_primary, "crash_manager": self._crash_manager,
            "crash_all": self._crash_all, "blackout": self._blackout, "freeze": self._freeze,
            "set_clock": self._set_clock, "hand_over": self._hand_over, "kill_client": self._kill_client,
            "cut_client": self._cut_client, "cut_line": self._cut_line, "swing": self._swing,
        }  # fmt: skip

    def _crash(self, random: Random) -> str:
        return self._take_down(random.choice(self.hosts()), random)

    def _crash_manager(self, random: Random) -> str:
        return self._take_down(random.choice([host for host in self.hosts() if host.plan.serves_clients]), random)

    def _crash_primary(self, random: Random) -> str:
        for host in self.members():
            if host.up and any(member.member.primary is not None for member in host.node.members.values()):
                return self._take_down(host, random)
        return NOBODY

    def _crash_all(self, random: Random) -> str:
        return "; ".join(self._take_down(host, random) for host in self.members())

    def _blackout(self, random: Random) -> str:
        """The power goes, here and where some of the applications run."""
        for host in self.hosts():
            delay = 2.0 * random.random()
            if host.up:
                host.stop(power=True)
                self.timeline.after(delay, None, bring_up, host)
        crew = self.world.crew
        for client in list(crew.clients):
            if random.random() < 0.5:
                crew.kill(client)
        crew.replace_all()
        return "all nodes"

    def _take_down(self, host: ClusterHost, random: Random) -> str:
        power, delay = random.random() < 0.5, random.choice((0.1, 1.5, 6.0)) * random.random()
        if not host.up:
            return NOBODY
        host.stop(power=power)
        self.timeline.after(delay, None, bring_up, host)
        return f"node {host.number} for {delay:.3f} s{', with its power' if power else ''}"

    def _hand_over(self, random: Random) -> str:
        """Not a fault, but what an operator does before one takes a node away."""
        for host in self.members():
            if host.up:
                for member in host.node.members.values():
                    member.hand_over()
        return "all primaries"

    def _freeze(self, random: Random) -> str:
        """The process stands still: a stopped machine, a long garbage collection, SIGSTOP."""
        host, seconds = random.choice(self.hosts()), random.choice((0.3, 2.0, 6.0)) * random.random()
        # What waits for the end of one pause must not be overtaken because another one ends sooner.
        host.paused_until = max(host.paused_until, self.timeline.time + seconds)
        self.world.fabric.conditions_changed()
        self.timeline.after(seconds, None, self.world.fabric.conditions_changed)
        return f"node {host.number} for {seconds:.3f} s"

    def _set_clock(self, random: Random) -> str:
        """Somebody sets the time of day; nothing may depend on it but what was said in it."""
        host, seconds = random.choice(self.hosts()), random.choice((-3600.0, -1.0, 1.0, 3600.0))
        host.wall_offset += seconds
        self.world.crew.history.clocks_set = True
        return f"node {host.number} by {seconds} s"

    # ---- programs

    def _kill_client(self, random: Random) -> str:
        crew = self.world.crew
        client = random.choice(crew.clients)
        crew.kill(client)
        crew.replace_all()
        return f"client {client.number}"

    def _cut_client(self, random: Random) -> str:
        """Often of a program that works on messages: it has something to lose."""
        clients, exchange = self.world.crew.clients, self.world.exchange
        working = [client for client in clients if client.is_working]
        client = random.choice(working if working and random.random() < 0.7 else clients)
        exchange.cut((client.number, host.plan.name) for host in self.hosts())
        seconds = random.choice((0.3, 3.0, 8.0, 40.0)) * random.random()
        self.timeline.after(seconds, None, exchange.mend)
        return f"client {client.number} for {seconds:.3f} s"

    def _swing(self, random: Random) -> str:
        """A client loses one line after the other, and goes from client manager to client manager, perhaps to where it
        was before. What it had said last, and that it is gone, each of them hears late.
        """
        client = random.choice(self.world.crew.clients)
        at, turns = 0.0, random.randint(1, 4)
        for _ in range(turns):
            held, late = 1.5 * random.random(), random.choice((0.5, 4.0, 12.0)) * random.random()
            self.timeline.after(at, None, self._hold_lines, client)
            self.timeline.after(at + held, None, self._break_lines, client, late)
            at += held + random.choice((0.1, 1.0, 3.0)) * random.random()
        return f"client {client.number}, {turns} times in {at:.3f} s"

    def _hold_lines(self, client: SimulatedClient) -> None:
        exchange = self.world.exchange
        exchange.cut((client.number, line.host) for line in exchange.lines_of(client))

    def _break_lines(self, client: SimulatedClient, late: float) -> None:
        exchange = self.world.exchange
        for line in exchange.lines_of(client):
            exchange.break_off(line, late)
        exchange.mend()

    def _cut_line(self, random: Random) -> str:
        """A client does not reach its client manager any more, but all others; neither hears that for a while."""
        client, exchange = random.choice(self.world.crew.clients), self.world.exchange
        exchange.cut((client.number, line.host) for line in exchange.lines_of(client))
        seconds = 25.0 * random.random()
        self.timeline.after(seconds, None, exchange.mend)
        return f"client {client.number} for {seconds:.3f} s"
