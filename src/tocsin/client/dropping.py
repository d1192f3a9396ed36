"""Connections that nobody has any more and that were never closed: said, and closed."""

from __future__ import annotations

import os
import warnings
from typing import Protocol
from weakref import finalize


class Line(Protocol):
    def drop(self) -> None:
        """Ends the connection, without waiting for anything."""


def when_dropped(connection: object, line: Line, url: str) -> finalize[[Line, str, int], object]:
    """To be detached when the connection is closed."""
    finalizer = finalize(connection, _dropped, line, url, os.getpid())
    # A program that ends need not be told.
    finalizer.atexit = False
    return finalizer


def _dropped(line: Line, url: str, process: int) -> None:
    if process != os.getpid():
        return  # It is its parent's.
    warnings.warn(
        f"The connection to {url} was dropped without close(): what it had under way may be lost.",
        ResourceWarning,
        stacklevel=2,
    )
    line.drop()
