"""How long an operation waits: in all, when it was given a time, and for each single answer of the server.

The second limit is the connection's `answer_timeout`. It begins anew with everything that comes, so it never ends an
operation that goes on slowly. A server that can't be reached is not its affair: the connection looks for another one,
and is given up after `reconnect_timeout`. What is left is a server that lives and can't answer, because nobody leads
the group that would.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tocsin.client.core import Core, Phase
from tocsin.client.pending import Bounded, OpenEnded, Pending
from tocsin.model.errors import TimedOut
from tocsin.model.limits import LAST_WORDS_SECONDS, SESSION_CLOSE_SECONDS

_CUT_OFF = (Phase.DOWN, Phase.CONNECTING, Phase.LOGIN)


def wait_until(core: Core, pending: Pending, until: float | None, now: float) -> float | None:
    """Up to when this step of an operation is waited for; the operation itself has time until `until`."""
    if isinstance(pending, Bounded) and until is None:
        until = now + pending.seconds
    seconds = core.settings.answer_timeout
    if seconds is None or isinstance(pending, OpenEnded):
        return until
    return now + seconds if until is None else min(until, now + seconds)


def check_time(
    core: Core, until: float | None, timeout: float | None, now: float, pending: Pending | None = None
) -> None:
    """After a wait in vain: raises TimedOut, unless it is to be waited on."""
    if isinstance(pending, Bounded) and timeout is None:
        raise TimedOut(f"There was no answer within {pending.seconds:g} s; what was asked may still happen.")
    seconds = core.settings.answer_timeout
    if timeout is not None and (seconds is None or (until is not None and now >= until)):
        raise TimedOut(f"There was no answer within {timeout:g} s; what was asked may still happen.")
    if seconds is not None and core.phase not in _CUT_OFF:
        raise TimedOut(
            f"Nothing has come for {seconds:g} s: the group in charge may have no primary "
            "(see `tocsin cluster status`)."
        )


@contextmanager
def asking(where: object) -> Iterator[None]:
    """Whoever waits in vain learns for whom."""
    try:
        yield
    except TimedOut as error:
        raise TimedOut(f"{where} does not answer. {error}") from error


class ClosingTime:
    """How long each session of a connection may take to close. Once one was left without an answer nobody expects any
    more, and all others have one moment together.
    """

    __slots__ = ("_began", "_until")

    def __init__(self) -> None:
        self._began: float | None = None
        self._until: float | None = None

    def next_limit(self, now: float) -> float:
        """For the next session; the one before is closed."""
        if self._until is None and self._began is not None and now - self._began >= SESSION_CLOSE_SECONDS:
            self._until = now + LAST_WORDS_SECONDS
        self._began = now
        return SESSION_CLOSE_SECONDS if self._until is None else max(0.0, self._until - now)
