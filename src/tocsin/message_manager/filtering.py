"""The reasons to look inside a batch: selectors, message groups and expiry. All work on columns."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.message_manager.selector import Same, Selector
from tocsin.model.batch import FLAG_NO_MESSAGE_ID, Block, Column, DeliveryMode
from tocsin.model.columns import column_values, raw_values
from tocsin.model.message import message_id
from tocsin.model.ranges import Range

Value = bool | int | float | str | None

_HEADER_COLUMNS = {
    "JMSCorrelationID": Column.CORRELATION_ID,
    "JMSType": Column.TYPE,
    "JMSXGroupID": Column.GROUP_ID,
    "JMSXGroupSeq": Column.GROUP_SEQUENCE,
}


class BlockColumns:
    """What a selector may read of a block, column by column (J41)."""

    __slots__ = ("_block",)

    def __init__(self, block: Block) -> None:
        self._block = block

    def column(self, name: str) -> Same | Sequence[Value] | None:
        block = self._block
        if not name.startswith("JMS") or name.startswith("JMS_"):
            return _merged(block, name)
        header = _HEADER_COLUMNS.get(name)
        if header is not None:
            return column_values(block, header)
        if name == "JMSPriority":
            return Same(block.priority)
        if name == "JMSDeliveryMode":
            persistent = block.delivery_mode is DeliveryMode.PERSISTENT
            return Same("PERSISTENT" if persistent else "NON_PERSISTENT")
        if name == "JMSTimestamp":
            deltas = column_values(block, Column.TIMESTAMP)
            if deltas is None:
                return Same(block.base_timestamp)
            return [block.base_timestamp + delta for delta in deltas]
        if name == "JMSMessageID":
            if block.flags & FLAG_NO_MESSAGE_ID:
                return None
            first = block.first_sequence
            return [message_id(block.producer_id, first + index) for index in range(block.count)]
        return _merged(block, name)


def _merged(block: Block, name: str) -> list[Value] | None:
    """A property may come in several types; each message has at most one of them."""
    columns = block.properties(name)
    if not columns:
        return None
    values: list[Value] = raw_values(columns[0], block.count)
    for column in columns[1:]:
        others = raw_values(column, block.count)
        values = [one if one is not None else other for one, other in zip(values, others, strict=True)]
    return values


def matching(selector: Selector, block: Block) -> list[Range]:
    """Messages of the block, by index, that the selector wants."""
    return selector.select(BlockColumns(block), block.count)


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
