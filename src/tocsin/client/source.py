"""What send_many takes bodies from, in chunks: large ones of a quick source, small ones of one that takes its time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sized
from itertools import islice
from typing import Any

from tocsin.model.limits import CLIENT_BATCH_MESSAGES

_FIRST_CHUNK = 32
"""Of a source that has everything already: the server has work while the rest is gathered."""
_QUICK_SECONDS = 0.005
"""What comes within this time may wait for more."""


class Source:
    """`limit`: how many of the next bodies fit a batch. `error`: what the source raised, behind the last chunk."""

    __slots__ = ("_iterator", "_size", "error", "limit")

    def __init__(self, bodies: Iterable[Any]) -> None:
        self._iterator = iter(bodies)
        # A generator may wait for each body: the first one leaves by itself.
        self._size = _FIRST_CHUNK if isinstance(bodies, Sized) else 1
        self.limit = CLIENT_BATCH_MESSAGES
        self.error: Exception | None = None

    def next_chunk(self) -> list[Any]:
        """The next bodies; none at the end, or behind an error."""
        chunk: list[Any] = []
        if self.error is not None:
            return chunk
        size = max(1, min(self._size, self.limit, CLIENT_BATCH_MESSAGES))
        began = time.monotonic()
        try:
            chunk.extend(islice(self._iterator, size))
        except Exception as error:
            self.error = error
            return chunk
        took = time.monotonic() - began
        self._size = 4 * size if took < _QUICK_SECONDS else max(1, int(size * _QUICK_SECONDS / took))
        return chunk
