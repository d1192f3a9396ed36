"""Fuzzing of whole machines: cases are drawn from a seed and fed to a machine that lives for some hundred of them.

A target makes machines. A case is data, so that what a machine was fed is a script: when it fails, the script is made
short by leaving cases out, as long as the failure stays the same, and shown. One seed gives the same cases anywhere.
"""

from __future__ import annotations

import logging
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

TURN_SECONDS_MAX = 1.0
"""Of a processor, for what a node does at a stretch: so long nobody else is served."""
STEP_SECONDS_MAX = 10.0
"""The same for one case and all that follows from it, in as many turns as it takes."""
_SHRINK_RUNS_MAX = 300
_SHRINK_SECONDS_MAX = 30.0
_SHOWN_CHARACTERS_MAX = 400

C = TypeVar("C")


class Broken(Exception):
    """What must hold does not: the oracle's own words."""


class Machine(ABC, Generic[C]):
    """What is fed. Any exception out of it is a finding."""

    longest_turn = 0.0
    """Seconds of a processor, of all turns since this was looked at."""

    def timed(self, turn: Callable[..., Any], *arguments: Any) -> Any:
        """Takes a turn and notes how long it took."""
        begun = time.thread_time()
        try:
            return turn(*arguments)
        finally:
            self.longest_turn = max(self.longest_turn, time.thread_time() - begun)

    @abstractmethod
    def play(self, case: C) -> None:
        """Feeds one case, with all that follows from it, and looks whether everything still holds."""

    def finish(self) -> None:
        """The life is over: what those who left had must be gone."""


class Source(ABC, Generic[C]):
    """Draws the cases of one life. What it draws depends on chance and on what it has drawn, never on the machine."""

    @abstractmethod
    def draw(self) -> C: ...


@dataclass(frozen=True)
class Target(Generic[C]):
    name: str
    machine: Callable[[], Machine[C]]
    source: Callable[[Random], Source[C]]
    life: int
    """Cases that one machine is fed."""


@dataclass
class Finding(Exception):
    """A machine that failed: how, and the shortest script found that makes it fail."""

    target: str
    seed: int
    number: int
    """Of the case that failed, over all lives, as if each had had all its cases."""
    error: BaseException
    script: Sequence[Any]
    drawn: int
    """How many cases the life had had until then."""

    def __str__(self) -> str:
        lines = [
            f"{self.target}: seed {self.seed} fails at case {self.number}: {show(self.error)}",
            f"Again: make fuzz TARGET={self.target} SEED={self.seed} CASES={self.number}",
            f"The shortest script found ({len(self.script)} of the life's {self.drawn} cases):",
        ]
        lines += [f"    {_short(case)}" for case in self.script]
        lines += ["", *traceback.format_exception(self.error)]
        return "\n".join(lines)


def show(error: BaseException) -> str:
    return f"{type(error).__name__}: {_short(error)}"


def _short(value: object) -> str:
    text = str(value) if isinstance(value, BaseException) else repr(value)
    half = _SHOWN_CHARACTERS_MAX // 2
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:half]} ... {text[-half:]}"


def kind_of(error: BaseException) -> tuple[str, str]:
    """What makes two failures the same: the type, and the innermost place in the product, or in the oracle."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if "/tocsin/" in frame.filename] or list(frames)
    return type(error).__name__, f"{inside[-1].filename}:{inside[-1].name}" if inside else ""


class _Contained(logging.Handler):
    """Hears of mistakes that a machine has contained: a node goes on after them, and still they are findings."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])

    def raise_first(self) -> None:
        errors, self.errors = self.errors, []
        if errors:
            raise errors[0]


@contextmanager
def listening() -> Iterator[_Contained]:
    log, heard = logging.getLogger("tocsin"), _Contained()
    propagated, log.propagate = log.propagate, False
    log.addHandler(heard)
    try:
        yield heard
    finally:
        log.removeHandler(heard)
        log.propagate = propagated


def step(machine: Machine[C], case: C, contained: _Contained) -> None:
    begun = time.thread_time()
    machine.play(case)
    contained.raise_first()
    took, turn = time.thread_time() - begun, machine.longest_turn
    machine.longest_turn = 0.0
    if turn > TURN_SECONDS_MAX:
        raise Broken(f"One turn took {turn:.1f} s of the processor.")
    if took > STEP_SECONDS_MAX:
        raise Broken(f"One case took {took:.1f} s of the processor.")


def run(target: Target[C], seed: int, cases: int, found: list[Finding] | None = None, skipped: int = 0) -> int:
    """Plays so many cases; returns how many. Raises a Finding; with `found` each different one is added to that, and
    the next life begins. `skipped` are whole lives at the beginning that somebody else plays.
    """
    played, life = 0, skipped
    while played < cases:
        source = target.source(Random(f"{target.name} {seed} {life}"))
        script: list[C] = []
        try:
            with listening() as contained:
                machine = target.machine()
                while len(script) < target.life and played < cases:
                    played += 1
                    script.append(source.draw())
                    step(machine, script[-1], contained)
                machine.finish()
                contained.raise_first()
        except Exception as error:
            if found is None or kind_of(error) not in [kind_of(each.error) for each in found]:
                short = shrink(target, script, error)
                number = life * target.life + len(script)
                finding = Finding(target.name, seed, number, error, short, len(script))
                if found is None:
                    raise finding from None
                found.append(finding)
        life += 1
    return played


def failure(target: Target[C], script: Sequence[C]) -> tuple[BaseException | None, int]:
    """How a fresh machine fails that is fed the script, if it does, and how many cases it took."""
    number = 0
    try:
        with listening() as contained:
            machine = target.machine()
            for case in script:
                number += 1
                step(machine, case, contained)
            machine.finish()
            contained.raise_first()
    except Exception as error:
        return error, number
    return None, number


def shrink(target: Target[C], script: list[C], error: BaseException) -> list[C]:
    """The shortest script found that fails as this one did."""
    wanted, runs, end = kind_of(error), 0, time.monotonic() + _SHRINK_SECONDS_MAX
    best = script
    slot = getattr(script[-1], "slot", None)
    alone = [case for case in script if getattr(case, "slot", slot) == slot]
    found, took = failure(target, alone)
    if found is not None and kind_of(found) == wanted:
        # What others did has nothing to do with it.
        best = alone[:took]
    size = max(1, len(best) // 2)
    while True:
        position = len(best)
        while position > 0:
            if runs >= _SHRINK_RUNS_MAX or time.monotonic() > end:
                return best
            runs += 1
            shorter = best[: max(0, position - size)] + best[position:]
            found, took = failure(target, shorter)
            if found is not None and kind_of(found) == wanted:
                best = shorter[:took]
            position = min(position - size, len(best))
        if size == 1:
            return best
        size //= 2
