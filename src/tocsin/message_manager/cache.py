"""Recently stored blocks, bounded in bytes, oldest out first; everything else is read from the journal again."""

from __future__ import annotations

from collections import OrderedDict

from tocsin.model.batch import Block

_OBJECT_BYTES = 640
"""What the objects around a block cost, so that a million tiny blocks count as what they take."""


class BlockCache:
    __slots__ = ("_blocks", "_bytes", "_limit")

    def __init__(self, limit: int) -> None:
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        self._bytes = 0
        self._limit = limit

    def put(self, lsn: int, block: Block) -> None:
        if lsn in self._blocks:
            return
        self._blocks[lsn] = block
        self._bytes += block.length + _OBJECT_BYTES
        while self._bytes > self._limit and len(self._blocks) > 1:
            _, old = self._blocks.popitem(last=False)
            self._bytes -= old.length + _OBJECT_BYTES

    def get(self, lsn: int) -> Block | None:
        return self._blocks.get(lsn)

    def drop(self, lsn: int) -> None:
        block = self._blocks.pop(lsn, None)
        if block is not None:
            self._bytes -= block.length + _OBJECT_BYTES

    @property
    def bytes(self) -> int:
        return self._bytes
