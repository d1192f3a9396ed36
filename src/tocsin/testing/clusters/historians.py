"""A program that makes a retained topic, reads it again and again, by ranges of offsets, as Spark does, and purges it
now and then.

H1  what is at an offset of a retained topic stays there: every reading gives the same messages, without a gap, each
    once; only what was purged, or is too much for the topic, is gone; and everything else that was confirmed is there
    in the end
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from tocsin.client import reading
from tocsin.client.operations import close_session, open_session, request
from tocsin.client.pending import Pending
from tocsin.model.batch import Column
from tocsin.model.columns import column_values
from tocsin.model.errors import TocsinError
from tocsin.model.limits import RANGE_BUFFER_BYTES
from tocsin.testing.clusters.client import Script, SimulatedClient
from tocsin.testing.clusters.workload import Workload
from tocsin.testing.simulation.register_checks import Violation

RETAINED = "topic:retained"
_PURGES = 0.15
_MAX_BYTES = (0, 0, 4_000)
"""How large the topic may become; 0: nobody cares."""


@dataclass(slots=True)
class Historian:
    """What it has read outlives the program."""

    workload: Workload
    destinations: list[str]
    """Where producers send; the topic is among them once it is there."""
    found: dict[int, str] = field(default_factory=dict)
    """What must survive and was read, by offset."""
    bodies: set[str] = field(default_factory=set)
    first: int = 0
    """Where the topic began when it was last looked at."""
    drops: bool = False
    """Something of it may have been removed: it was purged, or has a largest size."""

    def run(self, client: SimulatedClient) -> Script:
        random = self.workload.timeline.random
        while True:
            try:
                if RETAINED not in self.destinations:
                    max_bytes = random.choice(_MAX_BYTES)
                    self.drops |= max_bytes > 0
                    options = {"destination": RETAINED, "retained": True, "max_bytes": max_bytes}
                    yield from request(client.core, 0, "destination.create", options)
                    self.destinations.append(RETAINED)
                if not self.workload.pace.peaceful and random.random() < _PURGES:
                    self.drops = True
                    yield from request(client.core, 0, "destination.purge", {"destination": RETAINED})
                yield from self._look(client)
            except TocsinError as error:
                self.workload.errors.append((self.workload.timeline.time, client.number, error))
            yield 0.5 if self.workload.pace.peaceful else 3.0 * random.random()

    def _look(self, client: SimulatedClient) -> Script:
        random = self.workload.timeline.random
        reply = yield from request(client.core, 0, "offset.range", {"destination": RETAINED})
        offsets = reading.Offsets.of(reply)
        self._begins(offsets)
        start = offsets.first if self.workload.pace.peaceful else random.randint(offsets.first, offsets.end)
        found = yield from self._read(client, start, offsets.end)
        missing = set(range(start, offsets.end)) - set(found)
        if missing:
            raise Violation("H1", f"offsets {sorted(missing)[:5]} of {RETAINED} are before its end and were not read")
        lost = [offset for offset in self.found if offset >= offsets.end]
        if lost:
            raise Violation("H1", f"{RETAINED} ends at {offsets.end}, and offset {lost[0]} was read before")

    def _begins(self, offsets: reading.Offsets) -> None:
        if not offsets.retained or offsets.first < self.first:
            raise Violation("H1", f"{RETAINED} begins at {offsets.first}, and began at {self.first} before")
        if offsets.first > self.first:
            if not self.drops:
                raise Violation("H1", f"{RETAINED} begins at {offsets.first}, and nothing was ever removed from it")
            # What is gone was sent before now; of what nobody has read nobody knows whether it was among that.
            self.first = offsets.first
            self.workload.history.deletes(RETAINED)

    def _read(self, client: SimulatedClient, start: int, end: int) -> Generator[Pending | float, Any, dict[int, str]]:
        session = yield from open_session(client.core, "auto", False)
        spec = reading.range_spec(RETAINED, start, end, None, None, RANGE_BUFFER_BYTES, False, None)
        reader = yield from reading.open_range(session, spec)
        found: dict[int, str] = {}
        while (piece := (yield from reading.next_block(reader))) is not None:
            bodies = column_values(piece.block, Column.BODY) or []
            for first, last in piece.ranges:
                for index in range(first, last):
                    self._take(piece.offset + index, bytes(bodies[index]).decode(), found)
        yield from close_session(session, acknowledge=True)
        self.workload.count()
        return found

    def _take(self, offset: int, body: str, found: dict[int, str]) -> None:
        if offset in found:
            raise Violation("H1", f"offset {offset} of {RETAINED} was read twice")
        found[offset] = body
        sent = self.workload.history.sent.get(body)
        if sent is None or sent.destination != RETAINED or sent.refused:
            raise Violation("H1", f"offset {offset} of {RETAINED} has {body!r}, which was not sent to it")
        if not sent.persistent:
            return
        known = self.found.setdefault(offset, body)
        if known != body:
            raise Violation("H1", f"offset {offset} of {RETAINED} has {body!r} and had {known!r} before")
        self.bodies.add(body)
        view = self.workload.history.view(f"{RETAINED} by offset", RETAINED)
        if view.offsets.setdefault(body, offset) != offset:
            raise Violation("H1", f"{body!r} is in {RETAINED} at {offset} and at {view.offsets[body]}")
        view.acknowledging.add(body)
