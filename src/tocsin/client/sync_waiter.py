"""A thread that waits for an answer, and either reads the socket itself or sleeps until somebody else has read it."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from tocsin.client.pending import Pending


class Lead(Protocol):
    """Where threads wait: at most one of them reads."""

    leader: Waiter | None

    def wake_leader(self) -> None: ...


class Waiter:
    """Somebody who waits for one pending."""

    __slots__ = ("line", "pending", "signal", "signalled", "thread")

    def __init__(self, line: Lead, pending: Pending) -> None:
        self.line = line
        self.pending = pending
        self.thread = threading.get_ident()
        self.signal = threading.Lock()
        self.signal.acquire()
        self.signalled = False

    def wake(self, _pending: Pending | None = None) -> None:
        """Call with the lock held."""
        if self.line.leader is self:
            if threading.get_ident() != self.thread:
                self.line.wake_leader()
        elif not self.signalled:
            self.signalled = True
            self.signal.release()

    def sleep(self, until: float | None) -> bool:
        """Follows until it is woken; False when the time is over."""
        woken = self.signal.acquire(timeout=-1 if until is None else max(0.0, until - time.monotonic()))
        if woken:
            self.signalled = False
        return woken
