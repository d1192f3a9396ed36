"""A failing script is made short: faults are left out, by halves and then one by one, as long as it still fails.

Conditions are calmed, programs sent home, and the time cut to where it failed. What is left is what it takes: short
enough to read, and to write the smallest test from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from tocsin.testing.fault_script import Script
from tocsin.testing.simulation.register_checks import Violation

Runs: TypeAlias = Callable[[Script], "Violation | None"]
"""Runs a script: None when nothing is wrong, else what is, and what was done until then."""
RUNS_MAX = 400
_CHANCES = 3
_MARGIN_SECONDS = 3.0
"""How much later than before a shorter script may fail."""


class _Attempts:
    """The shortest script that fails, so far."""

    def __init__(self, runs: Runs, script: Script, runs_max: int) -> None:
        self._runs, self.best, self._left = runs, script, runs_max
        self.failed_at = script.seconds

    def fails(self, script: Script) -> bool:
        """Whether it fails, too: then it is the best. Chance goes another way when a fault is missing, so it gets
        some. Never when too much was tried already.
        """
        chance = script.options.get("chance", 0)
        chances = (chance, *(other for other in range(_CHANCES) if other != chance))
        return any(self._try(replace(script, options=_with_chance(script.options, each))) for each in chances)

    def _try(self, script: Script) -> bool:
        if not self._left:
            return False
        self._left -= 1
        found = self._runs(script)
        if found is None or found.script is None:
            return False
        # What had not struck when it failed has nothing to do with it.
        self.failed_at = found.at
        seconds = min(script.seconds, found.at + _MARGIN_SECONDS)
        self.best = replace(script, strikes=found.script.strikes, seconds=seconds)
        return True


def _with_chance(options: Mapping[str, Any], chance: int) -> dict[str, Any]:
    others = {name: value for name, value in options.items() if name != "chance"}
    return {**others, "chance": chance} if chance else others


def shrink(
    script: Script, runs: Runs, calm: Sequence[str] = (), smaller: Sequence[Mapping[str, Any]] = (),
    runs_max: int = RUNS_MAX,
) -> Script | None:  # fmt: skip
    """The shortest script found that fails; None when the one given does not. `calm`: conditions to leave out;
    `smaller`: options to try.
    """
    attempts = _Attempts(runs, script, runs_max)
    if not attempts.fails(script):
        return None
    before = None
    while attempts.best != before:
        before = attempts.best
        _drop_strikes(attempts)
        for condition in calm:
            if condition not in attempts.best.calm:
                attempts.fails(replace(attempts.best, calm=attempts.best.calm | {condition}))
        for option in smaller:
            wanted = {**attempts.best.options, **option}
            if wanted != attempts.best.options:
                attempts.fails(replace(attempts.best, options=wanted))
    if attempts.failed_at < attempts.best.seconds:
        attempts.fails(replace(attempts.best, seconds=attempts.failed_at))
    return attempts.best


def _drop_strikes(attempts: _Attempts) -> None:
    """Large pieces first, then smaller ones, down to single faults."""
    size = max(1, len(attempts.best.strikes) // 2)
    while attempts.best.strikes:
        for begin in _backwards(len(attempts.best.strikes), size):
            if begin < len(attempts.best.strikes):
                attempts.fails(attempts.best.without_strikes(range(begin, begin + size)))
        if size == 1:
            return
        size //= 2


def _backwards(length: int, size: int) -> Iterator[int]:
    """Where each piece begins. What comes early decides what comes later: from the end most goes on as before."""
    return iter(range((length - 1) // size * size, -1, -size))
