"""Asks the other members, one after another, for a copy of a record that the own disk cannot give any more.

A machine: events are method calls, effects come out of `take_out`. A member that is silent is passed over; when all
were asked in vain there is no copy. Whether a copy is good is for the host to say: it has the checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tocsin.cluster.register_events import Send
from tocsin.model.limits import REPAIRS_MAX
from tocsin.replication.messages import CopyGiven, CopyWanted
from tocsin.runtime.ports import Buffer


@dataclass(frozen=True, slots=True)
class CopyFound:
    """Effect: say `enough` when it is good, and `another` when it is not."""

    wanted: CopyWanted
    data: Buffer


@dataclass(frozen=True, slots=True)
class NoCopy:
    """Effect: nobody has one."""

    wanted: CopyWanted


Effect: TypeAlias = Send[CopyWanted] | CopyFound | NoCopy


@dataclass(slots=True)
class _Asked:
    left: list[int]
    """Who is asked next; the first one is asked now."""
    until: float
    """When to pass it over; without an end while the host looks at a copy."""


class Repairing:
    def __init__(self, others: tuple[int, ...], seconds: float) -> None:
        """`seconds`: how long to wait for one member."""
        self._others, self._seconds = others, seconds
        self._asked: dict[CopyWanted, _Asked] = {}
        # In the order in which they came.
        self._waiting: dict[CopyWanted, None] = {}
        self._out: list[Effect] = []

    def take_out(self) -> list[Effect]:
        out, self._out = self._out, []
        return out

    def want(self, wanted: CopyWanted, now: float) -> None:
        if wanted not in self._asked:
            self._waiting[wanted] = None
            self._next(now)

    def _next(self, now: float) -> None:
        while self._waiting and len(self._asked) < REPAIRS_MAX:
            wanted = next(iter(self._waiting))
            del self._waiting[wanted]
            self._asked[wanted] = _Asked(list(self._others), now)
            self._ask(wanted, now)

    def _ask(self, wanted: CopyWanted, now: float) -> None:
        asked = self._asked[wanted]
        if asked.left:
            asked.until = now + self._seconds
            self._out.append(Send((asked.left[0],), wanted))
        else:
            del self._asked[wanted]
            self._out.append(NoCopy(wanted))

    def given(self, sender: int, message: CopyGiven, now: float) -> None:
        wanted = message.wanted
        asked = self._asked.get(wanted)
        if asked is None or asked.until == float("inf") or asked.left[0] != sender:
            return
        if message.found:
            asked.until = float("inf")
            self._out.append(CopyFound(wanted, message.data))
        else:
            self.another(wanted, now)

    def another(self, wanted: CopyWanted, now: float) -> None:
        """What the last member said is of no use."""
        if wanted in self._asked:
            self._asked[wanted].left.pop(0)
            self._ask(wanted, now)
            self._next(now)

    def enough(self, wanted: CopyWanted, now: float) -> None:
        self._asked.pop(wanted, None)
        self._next(now)

    def tick(self, now: float) -> None:
        for wanted in [wanted for wanted, asked in self._asked.items() if asked.until <= now]:
            self.another(wanted, now)

    def next_deadline(self) -> float:
        return min((asked.until for asked in self._asked.values()), default=float("inf"))
