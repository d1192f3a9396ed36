"""Faults as a script: which one strikes when. A seed writes its script as it goes; it can be read, cut and repeated.

    {"seed": 7, "shape": "3+2", "options": {"clients": 1}, "calm": ["loss"], "seconds": 21.5,
     "strikes": [[3.127, "slow_votes", 4, "node 1 for 0.8 s"], ...]}

What a fault strikes it draws from its own number, so the others stay what they are when one is left out. Chance in the
network and in the programs is another's, and goes on as before up to the first fault that is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random
from typing import Any, NamedTuple, Protocol, TypeAlias

_NEXT_SECONDS = 1e-6
Kind: TypeAlias = Callable[[Random], str]
"""Does the harm, with what it draws, and says what it did."""


class Moment(Enum):
    """When a group is weak."""

    CHANGE = "a primary changes the configuration"
    PROMOTION = "somebody wants to become primary"


class Strike(NamedTuple):
    at: float
    kind: str
    number: int
    said: str = ""
    """What was struck, for people; a repetition does not read it."""


@dataclass(frozen=True, slots=True)
class Script:
    """Everything that makes a run what it is."""

    seed: int
    shape: str
    strikes: tuple[Strike, ...] = ()
    seconds: float = 0.0
    """How long there are faults."""
    calm: frozenset[str] = frozenset()
    """Conditions of the seed that are left out, such as "loss"."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        head = {"seed": self.seed, "shape": self.shape, "seconds": self.seconds, "calm": sorted(self.calm)}
        lines = [json.dumps([round(strike.at, 6), *strike[1:]]) for strike in self.strikes]
        text = json.dumps({**head, "options": dict(self.options)})[:-1]
        return f'{text}, "strikes": [\n ' + ",\n ".join(lines) + "]}"

    @classmethod
    def from_json(cls, text: str) -> Script:
        found = json.loads(text)
        strikes = tuple(Strike(*strike) for strike in found["strikes"])
        return cls(found["seed"], found["shape"], strikes, found["seconds"], frozenset(found["calm"]), found["options"])

    def without_strikes(self, numbers: Sequence[int]) -> Script:
        """Places in `strikes` that are left out."""
        gone = set(numbers)
        return replace(self, strikes=tuple(strike for place, strike in enumerate(self.strikes) if place not in gone))


class Time(Protocol):
    time: float

    def after(self, delay: float, node: None, step: Callable[..., None], *arguments: object) -> None:
        """Do something later."""


class Striker:
    """Strikes with one of `kinds` again and again until it is stopped; or when its script says so, and then only.

    Steering: the moments at which a group is weakest are short, and chance seldom meets them. Whoever sees one begin
    says so (`moment`), and then one of `steered` may strike at once or a little later.
    """

    def __init__(
        self, seed: str, time: Time, kinds: Mapping[str, Kind], script: Sequence[Strike] | None = None
    ) -> None:
        self._seed, self._time, self._kinds, self._script = seed, time, kinds, script
        self.random = Random(f"faults {seed}")
        self.chosen: Sequence[str] = sorted(kinds)
        self.steered: Sequence[str] = ()
        self.pause = 1.0
        self.steering = dict.fromkeys(Moment, 0.0)
        """How likely it is that a moment is used."""
        self.struck: list[Strike] = []
        self.active = False
        self._numbers = 0

    def start(self) -> None:
        self.active = True
        if self._script is None:
            self._next()
            return
        for strike in self._script:
            self._time.after(strike.at - self._time.time, None, self._strike, strike.kind, strike.number)

    def stop(self) -> None:
        self.active = False

    def moment(self, moment: Moment) -> None:
        if self.active and self._script is None and self.random.random() < self.steering[moment]:
            # Never at the same time, so that a repetition strikes behind what it was struck for, too.
            delay = _NEXT_SECONDS + self.random.choice((0.0, 0.0, 0.0, 0.02)) * self.random.random()
            self._time.after(delay, None, self._strike, self.random.choice(self.steered), self._number())

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _next(self) -> None:
        self._time.after(2 * self.pause * self.random.random(), None, self._in_turn)

    def _in_turn(self) -> None:
        if self.active:
            self._strike(self.random.choice(self.chosen), self._number())
            self._next()

    def _strike(self, kind: str, number: int) -> None:
        if self.active:
            said = self._kinds[kind](Random(f"{self._seed} {number}"))
            self.struck.append(Strike(self._time.time, kind, number, said))
