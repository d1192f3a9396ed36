"""What Java and its Python workers write to standard error: kept instead of shown.

Spark has much to say there that means nothing to the user of a command. The last lines are for the case that it does
not start, or ends before its time.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

LINES_KEPT = 50
_STANDARD_ERROR = 2


class KeptLines:
    """The last lines that came; `text` is safe to read at any time."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)

    def read(self, number: int) -> None:
        """Until all who could write have gone."""
        with os.fdopen(number, errors="replace") as source:
            for line in source:
                self._lines.append(line.rstrip())

    @property
    def text(self) -> str:
        return "\n".join(self._lines)


@contextmanager
def children_kept_quiet() -> Iterator[KeptLines]:
    """Processes that are started in this block, and all that they start, write to the lines that it yields."""
    kept = KeptLines()
    sys.stderr.flush()
    own = os.dup(_STANDARD_ERROR)
    reading, writing = os.pipe()
    os.dup2(writing, _STANDARD_ERROR)
    os.close(writing)
    # A daemon: Java may end a little later than this process.
    threading.Thread(target=kept.read, args=(reading,), name="spark-output", daemon=True).start()
    try:
        yield kept
    finally:
        os.dup2(own, _STANDARD_ERROR)
        os.close(own)
