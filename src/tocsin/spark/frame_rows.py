"""Rows of one Arrow batch on their way to several destinations: which rows, and where they stood in the frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Some rows of a batch, in their order."""

    batch: Any
    partition: int
    first: int
    """The number in its partition of the batch's first row, counted from 0."""
    picked: Any = None
    """Which rows of the batch these are when not all: an array of their positions."""

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def is_larger_than(self, size: int) -> bool:
        """Whether the rows have more bytes than that. What lies under them is quickly told, and seldom more."""
        return bool(self.batch.get_total_buffer_size() > size and self.batch.nbytes > size)

    def column(self, index: int | None) -> Any:
        return None if index is None else self.batch.column(index)

    def place(self, row: int) -> str:
        """How a sentence names a row: by where it stood in the frame that is written."""
        position = row if self.picked is None else self.picked[row].as_py()
        return f"row {self.first + position} of partition {self.partition}"

    def take(self, positions: Any) -> FrameRows:
        picked = positions if self.picked is None else self.picked.take(positions)
        return replace(self, batch=self.batch.take(positions), picked=picked)

    def slice(self, start: int, count: int) -> FrameRows:
        if self.picked is None:
            return replace(self, batch=self.batch.slice(start, count), first=self.first + start)
        return replace(self, batch=self.batch.slice(start, count), picked=self.picked.slice(start, count))

    def halves(self) -> Iterator[FrameRows]:
        half = len(self) // 2
        yield self.slice(0, half)
        yield self.slice(half, len(self) - half)

    def split(self, values: Any) -> Iterator[tuple[Any, FrameRows]]:
        """The rows of each distinct value; within each, rows keep their order."""
        encoded = values.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        if len(distinct) == 1:
            yield distinct[0], self
            return
        order = pc.sort_indices(encoded.indices)
        start = 0
        for group in pc.value_counts(encoded.indices.take(order)).to_pylist():
            yield distinct[group["values"]], self.take(order.slice(start, group["counts"]))
            start += group["counts"]

    def runs(self, flags: Any) -> Iterator[tuple[bool, FrameRows]]:
        """Neighbours with the same flag, run by run, so that all rows keep their order."""
        encoded = pc.run_end_encode(flags)
        start = 0
        for flag, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
            yield flag, self.slice(start, end - start)
            start = end
