"""What a login shows of a user before the password is proved: how often it is salted, and how long the salt is.

A name that nobody has must show what some user would. Which one it is follows from the name alone, as often as users
have it; so neither asking twice nor asking for many names tells who exists.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from tocsin.model.limits import PASSWORD_ITERATIONS_DEFAULT

DRAW_BITS = 64
_SALT_BYTES = 16


class Shape(NamedTuple):
    iterations: int = PASSWORD_ITERATIONS_DEFAULT
    salt_bytes: int = _SALT_BYTES


class Shapes:
    """Those of all users, each as often as users have it."""

    __slots__ = ("_ends", "_shapes")

    def __init__(self, users: Iterable[Shape] = ()) -> None:
        counts = Counter(users) or Counter({Shape(): 1})
        self._shapes = sorted(counts)
        self._ends = list(accumulate(counts[shape] for shape in self._shapes))

    def of(self, draw: int) -> Shape:
        """`draw` is a number of 64 bits."""
        return self._shapes[bisect_right(self._ends, draw * self._ends[-1] >> DRAW_BITS)]
