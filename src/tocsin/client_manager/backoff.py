"""Guessing passwords gets slow: who has failed several times has to wait, longer with each further failure.

Counted are failures of one user from one address, of an address whatever the user, and of a user wherever they come
from. The first is what stops a guesser; the other two let one try at a time pass, so that they slow down who tries many
names or comes from many addresses, and keep nobody out for more than moments. And whoever has logged in before from
an address is kept back there by their own failures alone: neither a stranger nor a neighbour can shut them out.
Everything is forgotten after a while, and what is remembered is bounded.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from tocsin.model.entrance_limits import (
    FAILED_LOGIN_MEMORY_SECONDS,
    FAILED_LOGINS_FREE,
    FAILED_LOGINS_FREE_SHARED,
    FAILED_LOGINS_KEPT,
    LOGIN_PAUSE_SECONDS_FIRST,
    LOGIN_PAUSE_SECONDS_MAX,
    LOGIN_PAUSE_SECONDS_MAX_SHARED,
)
from tocsin.model.errors import ResourceExhausted

log = logging.getLogger("tocsin")

_DOUBLINGS_MAX = 32


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0
    until: float = 0.0


class Failures:
    """Of many; the ones that failed longest ago are forgotten first."""

    __slots__ = ("_free", "_kept", "_of", "_pause_max")

    def __init__(self, free: int, pause_max: float, kept: int = FAILED_LOGINS_KEPT) -> None:
        self._free, self._pause_max, self._kept = free, pause_max, kept
        self._of: OrderedDict[Hashable, _Failures] = OrderedDict()

    def pause(self, who: Hashable, now: float) -> float:
        """How many seconds they have to wait."""
        failures = self._of.get(who)
        return 0.0 if failures is None else max(0.0, failures.until - now)

    def add(self, who: Hashable, now: float) -> int:
        """Returns how many there are of them now."""
        failures = self._of.setdefault(who, _Failures())
        if now - failures.last > FAILED_LOGIN_MEMORY_SECONDS:
            failures.count = 0
        failures.count += 1
        failures.last = now
        beyond = failures.count - self._free
        if beyond >= 0:
            pause = LOGIN_PAUSE_SECONDS_FIRST * 2.0 ** min(beyond, _DOUBLINGS_MAX)
            failures.until = now + min(pause, self._pause_max)
        self._of.move_to_end(who)
        if len(self._of) > self._kept:
            self._of.popitem(last=False)
        return failures.count

    def forget(self, who: Hashable) -> None:
        self._of.pop(who, None)

    def __len__(self) -> int:
        return len(self._of)


class Backoff:
    """Asked before a proof is looked at, and told how it went. `place` is where a client comes from."""

    __slots__ = ("_own", "_places", "_seen", "_users")

    def __init__(self) -> None:
        self._own = Failures(FAILED_LOGINS_FREE, LOGIN_PAUSE_SECONDS_MAX)
        self._places = Failures(FAILED_LOGINS_FREE_SHARED, LOGIN_PAUSE_SECONDS_MAX_SHARED)
        self._users = Failures(FAILED_LOGINS_FREE_SHARED, LOGIN_PAUSE_SECONDS_MAX_SHARED)
        # Who has logged in from where, the latest last.
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, user: str, place: str, now: float) -> None:
        """ResourceExhausted says how long to wait. Whether there is such a user makes no difference."""
        pause = self._own.pause((user, place), now)
        if (user, place) not in self._seen:
            pause = max(pause, self._places.pause(place, now), self._users.pause(user, now))
        if pause > 0.0:
            raise ResourceExhausted(f"Too many logins have failed; try again in {pause:.1f} s.")

    def failed(self, user: str, place: str, now: float) -> None:
        """Logged are the first, second, fourth, eighth... of a place, so that who guesses can't fill the disk."""
        self._own.add((user, place), now)
        self._users.add(user, now)
        count = self._places.add(place, now)
        if not count & (count - 1):
            log.warning("A login as %.80r from %s has failed; %d of that address until now.", user, place, count)

    def succeeded(self, user: str, place: str) -> None:
        """Their own failures are forgotten. Those of the place are not, or one account would pay for guesses at all."""
        self._own.forget((user, place))
        self._seen[user, place] = None
        self._seen.move_to_end((user, place))
        if len(self._seen) > FAILED_LOGINS_KEPT:
            self._seen.popitem(last=False)
