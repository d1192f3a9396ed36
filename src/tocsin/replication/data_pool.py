"""Payloads that were multicast to the group and wait for the ORDER that gives them their place.

Bounded: when it is full the oldest go. What is missing when its ORDER comes is fetched from the primary.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from tocsin.model.limits import DATA_POOL_BYTES, DATA_POOL_ENTRIES
from tocsin.replication.messages import Reference
from tocsin.runtime.ports import Buffer

DIGEST_BYTES = 16


def digest_of(data: Buffer) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


class DataPool:
    __slots__ = ("_bytes", "_data", "_entries_max", "bytes_max")

    def __init__(self, bytes_max: int = DATA_POOL_BYTES, entries_max: int = DATA_POOL_ENTRIES) -> None:
        self._data: OrderedDict[Reference, Buffer] = OrderedDict()
        self._bytes = 0
        self.bytes_max, self._entries_max = bytes_max, entries_max

    def put(self, reference: Reference, data: Buffer) -> None:
        """The digest is part of the name, so a payload is only ever found under what it contains."""
        old = self._data.pop(reference, None)
        if old is not None:
            self._bytes -= len(old)
        self._data[reference] = data
        self._bytes += len(data)
        while self._bytes > self.bytes_max or len(self._data) > self._entries_max:
            self._bytes -= len(self._data.popitem(last=False)[1])

    def get(self, reference: Reference) -> Buffer | None:
        return self._data.get(reference)

    def drop(self, reference: Reference) -> None:
        """Its record is in the log now."""
        old = self._data.pop(reference, None)
        if old is not None:
            self._bytes -= len(old)

    def __len__(self) -> int:
        return len(self._data)
