"""A program that drains queues in planned batches, as Spark does: take, write the plan down, read, finish.

The plan outlives the program: another one goes on with it. What it finished must not come to anybody again (I10), what
it gave back comes flagged (I9), and

Q1  a take is the same whenever it is asked for, and reading it gives its messages, all of them, once each
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from tocsin.client import draining, reading
from tocsin.client.core_sessions import SessionState
from tocsin.client.draining import DrainTake
from tocsin.client.operations import close_session, open_session
from tocsin.client.pending import Pending
from tocsin.model.batch import Column
from tocsin.model.columns import column_values
from tocsin.model.errors import TocsinError
from tocsin.model.limits import RANGE_BUFFER_BYTES
from tocsin.model.ranges import RangeSet
from tocsin.testing.clusters.client import Script, SimulatedClient
from tocsin.testing.clusters.history import Received, ViewHistory
from tocsin.testing.clusters.workload import Source, Workload
from tocsin.testing.simulation.register_checks import Violation

_DRAIN = "batches"


@dataclass(slots=True)
class Plan:
    """What the program has written down about one queue."""

    finished: int = 0
    """The number of the last take that is finished."""
    ranges: tuple[tuple[int, int], ...] | None = None
    """What the take behind it has, when it is planned."""
    bodies: list[str] | None = None
    """What it was, when it has been read: it only has to be finished."""
    releasing: bool = False
    """It was given up; whether the servers know is another question."""


@dataclass(slots=True)
class Drainer:
    workload: Workload
    shared: list[str]
    """Queues that have consumers, too."""
    own: str
    """A queue that consumers only visit."""
    plans: dict[str, Plan] = field(default_factory=dict)

    def run(self, client: SimulatedClient) -> Script:
        random = self.workload.timeline.random
        while True:
            queue = random.choice([*self.shared, self.own, self.own])
            try:
                yield from self._batch(client, queue, self.plans.setdefault(queue, Plan()))
                if queue == self.own and random.random() < 0.1:
                    yield from self.workload.visit(client, Source(queue))
            except TocsinError as error:
                self.workload.errors.append((self.workload.timeline.time, client.number, error))
                yield 0.5
            yield 0.3 * random.random()

    def _batch(self, client: SimulatedClient, queue: str, plan: Plan) -> Script:
        random, core = self.workload.timeline.random, client.core
        view = self.workload.history.view(queue, queue)
        if plan.releasing:
            yield from draining.release_steps(core, queue, _DRAIN)
            plan.releasing, plan.ranges, plan.bodies = False, None, None
        if plan.bodies is None:
            taken = yield from draining.take_steps(core, queue, _DRAIN, plan.finished, random.randint(1, 9), None, None)
            self.workload.count()
            if not taken.messages:
                return
            if plan.ranges not in (None, taken.ranges):
                raise Violation("Q1", f"take {taken.take} of {queue} is {taken.ranges} and was {plan.ranges} before")
            plan.ranges = taken.ranges
            yield 0.1 * random.random()
            plan.bodies = yield from self._read(client, queue, taken, view)
        if not self.workload.pace.peaceful and random.random() < 0.1:
            plan.releasing = True
            return
        view.acknowledging.update(plan.bodies)
        yield from draining.finish_steps(core, queue, _DRAIN, plan.finished + 1)
        self.workload.history.acknowledged(view, plan.bodies, self.workload.timeline.time)
        plan.finished, plan.ranges, plan.bodies = plan.finished + 1, None, None

    def _read(
        self, client: SimulatedClient, queue: str, taken: DrainTake, view: ViewHistory
    ) -> Generator[Pending | float, Any, list[str]]:
        session: SessionState = yield from open_session(client.core, "auto", False)
        drain = (_DRAIN, taken.take)
        spec = reading.range_spec(queue, taken.first, taken.end, None, None, RANGE_BUFFER_BYTES, False, drain)
        reader = yield from reading.open_range(session, spec)
        found: dict[int, str] = {}
        while (piece := (yield from reading.next_block(reader))) is not None:
            bodies = column_values(piece.block, Column.BODY) or []
            for start, end in piece.ranges:
                for index in range(start, end):
                    if piece.offset + index in found:
                        raise Violation("Q1", f"offset {piece.offset + index} of {queue} was read twice")
                    found[piece.offset + index] = bytes(bodies[index]).decode()
        yield from close_session(session, acknowledge=True)
        if RangeSet((offset, offset + 1) for offset in found) != RangeSet(taken.ranges):
            raise Violation("Q1", f"take {taken.take} of {queue} has {taken.ranges}, and {sorted(found)} were read")
        time, who = self.workload.timeline.time, f"the drainer {client.number}"
        for offset, body in found.items():
            self.workload.history.takes(view, Received(body, offset, True, time, who), time)
        return list(found.values())
