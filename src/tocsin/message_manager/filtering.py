"""The reasons to look inside a batch: selectors, message groups and expiry. All work on columns."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from tocsin.message_manager.selector import Same, Selector
from tocsin.model.batch import FLAG_NO_MESSAGE_ID, Block, Column, ColumnData, DeliveryMode
from tocsin.model.columns import column_values, raw_values
from tocsin.model.editing import slice_column
from tocsin.model.message import message_id
from tocsin.model.ranges import Range

Value = bool | int | float | str | None

_HEADER_COLUMNS = {
    "JMSCorrelationID": Column.CORRELATION_ID,
    "JMSType": Column.TYPE,
    "JMSXGroupID": Column.GROUP_ID,
    "JMSXGroupSeq": Column.GROUP_SEQUENCE,
}
_HEADER_NAMES: dict[int, str] = {int(column): name for name, column in _HEADER_COLUMNS.items()}


class BlockColumns:
    """What a selector may read of a block or a part of it, column by column (J41)."""

    __slots__ = ("_block", "_end", "_start")

    def __init__(self, block: Block, start: int = 0, end: int | None = None) -> None:
        self._block = block
        self._start = start
        self._end = block.count if end is None else end

    def column(self, name: str) -> Same | Sequence[Value] | None:
        block = self._block
        if not name.startswith("JMS") or name.startswith("JMS_"):
            return self._merged(name)
        header = _HEADER_COLUMNS.get(name)
        if header is not None:
            return self._header(header)
        if name == "JMSPriority":
            return Same(block.priority)
        if name == "JMSDeliveryMode":
            persistent = block.delivery_mode is DeliveryMode.PERSISTENT
            return Same("PERSISTENT" if persistent else "NON_PERSISTENT")
        if name == "JMSTimestamp":
            deltas = self._header(Column.TIMESTAMP)
            if deltas is None:
                return Same(block.base_timestamp)
            return [block.base_timestamp + delta for delta in deltas]
        if name == "JMSMessageID":
            if block.flags & FLAG_NO_MESSAGE_ID:
                return None
            first = block.first_sequence
            return [message_id(block.producer_id, first + index) for index in range(self._start, self._end)]
        return self._merged(name)

    def _merged(self, name: str) -> list[Value] | None:
        """A property may come in several types; each message has at most one of them."""
        columns = self._block.properties(name)
        if not columns:
            return None
        values: list[Value] = self._values(columns[0])
        for column in columns[1:]:
            others = self._values(column)
            values = [one if one is not None else other for one, other in zip(values, others, strict=True)]
        return values

    def _header(self, column: Column) -> list[Any] | None:
        found = self._block.column(column)
        return None if found is None else self._values(found)

    def _values(self, column: ColumnData) -> list[Any]:
        count = self._end - self._start
        if count < self._block.count:
            column = slice_column(column, self._start, self._end)
        return raw_values(column, count)


def matching(selector: Selector, block: Block, start: int = 0, end: int | None = None) -> list[Range]:
    """Messages of the block, or of a part of it, that the selector wants: by index, from the part's start on."""
    end = block.count if end is None else end
    return selector.select(BlockColumns(block, start, end), end - start)


def steps_of(selector: Selector, block: Block) -> int:
    """What asking the selector about a block costs at most."""
    rates = selector.cost.rates
    steps: int = block.count * selector.cost.steps
    for column, _, name, _, offsets_at, _, size in block.directory():
        if offsets_at:
            rate = rates.get(name or _HEADER_NAMES.get(column, ""))
            if rate is not None:
                steps += rate * size
    return steps


def text_columns(selector: Selector, block: Block) -> list[tuple[int, array[int]]]:
    """What the selector reads character by character: the rate, and where each message's text begins and ends."""
    rates = selector.cost.rates
    found: list[tuple[int, array[int]]] = []
    for column in block.columns():
        rate = rates.get(column.name or _HEADER_NAMES.get(column.column, ""))
        if rate is not None and column.offsets is not None:
            found.append((rate, column.offsets))
    return found


def expired(block: Block, now_ms: int) -> tuple[list[Range], int]:
    """Messages by index whose time to live is over, and the earliest expiry among the others (0: none)."""
    values = column_values(block, Column.EXPIRY)
    if values is None:
        return [], 0
    gone: list[Range] = []
    earliest = 0
    for index, expiry in enumerate(values):
        if not expiry:
            continue
        if expiry <= now_ms:
            if gone and gone[-1][1] == index:
                gone[-1] = (gone[-1][0], index + 1)
            else:
                gone.append((index, index + 1))
        elif not earliest or expiry < earliest:
            earliest = expiry
    return gone, earliest


def groups_of(block: Block) -> list[str | None]:
    values = column_values(block, Column.GROUP_ID)
    return values if values is not None else [None] * block.count
