"""What a range that was read has in it, for topics whose messages say which offset they have."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.client.core_reading import RangeBlock
from tocsin.model.batch import Column
from tocsin.model.columns import column_values


def offsets_of(blocks: Iterable[RangeBlock]) -> list[int]:
    """Message by message, and each at the offset that its body says."""
    found = []
    for each in blocks:
        bodies = column_values(each.block, Column.BODY) or []
        for start, end in each.ranges:
            for index in range(start, end):
                assert int(bodies[index]) == each.offset + index
                found.append(each.offset + index)
    return found
