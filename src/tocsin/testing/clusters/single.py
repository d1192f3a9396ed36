"""One server under faults, with the clients around it: crashes, power cuts, slow disks, cut lines."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.testing.clusters.crew import CLIENT_SETTINGS, Crew
from tocsin.testing.clusters.lines import Exchange
from tocsin.testing.clusters.server_node import ServerNode
from tocsin.testing.clusters.timeline import Timeline
from tocsin.testing.clusters.workload import Pace
from tocsin.testing.simulation.register_checks import Violation

FAULT_SECONDS = 60.0
HEAL_SECONDS = 30.0
_HOST = "server"


class SingleOutcome(NamedTuple):
    trace: int
    events: int
    simulated_seconds: float
    operations: int
    confirmed: int
    faults: int
    resumes: int


class SingleWorld:
    def __init__(self, seed: int) -> None:
        self.timeline = Timeline(f"single {seed}")
        self.exchange = Exchange(self.timeline)
        self.server = ServerNode(self.timeline, self.exchange, _HOST, CLIENT_SETTINGS)
        self.crew = Crew(self.timeline, self.exchange, [_HOST], Pace())
        self.crew.history.reigns = lambda: self.server.life
        self.faults = 0
        self._pause = self.timeline.random.choice((2.0, 5.0, 10.0))
        self.exchange.delay = self.timeline.random.choice((0.000_5, 0.005, 0.03))
        self.server.speed.seconds = self.timeline.random.choice((0.000_3, 0.002, 0.01))
        self._active = True

    def start(self) -> None:
        self.server.start()
        self.crew.assemble()
        self._plan()

    def _plan(self) -> None:
        if self._active:
            self.timeline.after(2 * self._pause * self.timeline.random.random(), None, self._strike)

    def _strike(self) -> None:
        if not self._active:
            return
        self.faults += 1
        random = self.timeline.random
        random.choice((self._crash, self._crash, self._stall, self._cut, self._kill_client, self._freeze))()
        self._plan()

    def _crash(self) -> None:
        if self.server.up:
            self.server.stop(power=self.timeline.random.random() < 0.5)
            self.timeline.after(3.0 * self.timeline.random.random(), None, self._restart)

    def _restart(self) -> None:
        if not self.server.up:
            self.server.start()

    def _stall(self) -> None:
        self.server.speed.stalled_until = self.timeline.time + 3.0 * self.timeline.random.random()

    def _freeze(self) -> None:
        # What waits for the end of one pause must not be overtaken because another one ends sooner.
        until = self.timeline.time + 3.0 * self.timeline.random.random()
        self.server.paused_until = max(self.server.paused_until, until)

    def _cut(self) -> None:
        self.exchange.cut([(self.timeline.random.choice(self.crew.clients).number, _HOST)])
        self.timeline.after(15.0 * self.timeline.random.random(), None, self.exchange.mend)

    def _kill_client(self) -> None:
        self.crew.kill(self.timeline.random.choice(self.crew.clients))
        self.crew.replace_all()

    def stop_faults(self) -> None:
        self._active = False
        self._restart()
        self.exchange.mend()
        self.server.speed.stalled_until = 0.0
        self.crew.pace.peaceful = True
        self.crew.replace_all()

    def check_recovered(self) -> None:
        end = self.timeline.time + HEAL_SECONDS
        while self.timeline.time < end:
            self.timeline.run_until(self.timeline.time + 0.5)
            if self.crew.is_done():
                return
        missing = {name: bodies[:5] for name, bodies in self.crew.history.all_missing().items()}
        unconfirmed = sorted(self.crew.workload.unconfirmed)[:5]
        raise Violation("I1", f"confirmed and never seen again: {missing}; never answered: {unconfirmed}")


def run_single(seed: int, fault_seconds: float = FAULT_SECONDS) -> SingleOutcome:
    """Faults for a while, then none: everything must have held all the time, and work again. Raises Violation."""
    world = SingleWorld(seed)
    world.start()
    world.timeline.run_until(fault_seconds)
    world.stop_faults()
    world.check_recovered()
    world.crew.history.check_order()
    world.crew.history.check_accounts()
    timeline, crew = world.timeline, world.crew
    return SingleOutcome(
        timeline.trace, timeline.events, timeline.time, crew.workload.operations, crew.history.confirmed, world.faults,
        crew.resumes,
    )  # fmt: skip
