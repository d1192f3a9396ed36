"""What an operation waits for: one small object, finished by the core and waited for by a shell."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from tocsin.model.errors import TocsinError

T = TypeVar("T")
Steps = Generator["Pending", Any, T]
"""An operation in steps: it yields what it waits for, is sent the result, and returns its own. Shells only wait."""


class Pending:
    """Done or not; then a result or an error. Callbacks run once, in the order in which they were added."""

    __slots__ = ("_callbacks", "done", "error", "result")

    def __init__(self) -> None:
        self.done = False
        self.result: Any = None
        self.error: TocsinError | None = None
        self._callbacks: list[Callable[[Pending], None]] | None = None

    def is_done(self) -> bool:
        """For those who look again after something else may have finished it."""
        return self.done

    def finish(self, result: Any = None) -> None:
        if not self.done:
            self.result = result
            self._complete()

    def fail(self, error: TocsinError) -> None:
        if not self.done:
            self.error = error
            self._complete()

    def get(self) -> Any:
        """The result of a finished operation, or its error raised."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.result

    def when_done(self, callback: Callable[[Pending], None]) -> None:
        if self.done:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def forget(self, callback: Callable[[Pending], None]) -> None:
        """Takes a callback back, when its owner has stopped waiting."""
        if self._callbacks is not None and callback in self._callbacks:
            self._callbacks.remove(callback)

    def _complete(self) -> None:
        self.done = True
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(self)


class OpenEnded(Pending):
    """What need not ever come, such as a message or the end of a listener: no server is late with it."""

    __slots__ = ()


class Bounded(Pending):
    """What is not waited for any longer than `seconds`, when whoever waits has set no time."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


def all_of(pendings: Iterable[Pending], seconds: float) -> Pending:
    """Done when all are done; it fails when one has failed."""
    waiting = [pending for pending in pendings if not pending.done or pending.error is not None]
    left = len(waiting)
    whole = Bounded(seconds)

    def one_done(pending: Pending) -> None:
        nonlocal left
        left -= 1
        if pending.error is not None:
            whole.fail(pending.error)
        elif not left:
            whole.finish()

    for pending in waiting:
        pending.when_done(one_done)
    if not waiting:
        whole.finish()
    return whole


def finished(result: Any = None) -> Pending:
    pending = Pending()
    pending.finish(result)
    return pending
