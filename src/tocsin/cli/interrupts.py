"""Ctrl-C that comes at a bad moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """An interrupt waits for the end of the block. A second one does not: whatever takes so long may never end."""
    if threading.current_thread() is not threading.main_thread():
        # Interrupts never come here.
        yield
        return
    pending = False

    def note(_number: int, _frame: object) -> None:
        nonlocal pending
        if pending:
            raise KeyboardInterrupt
        pending = True

    former = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
    if pending:
        raise KeyboardInterrupt
