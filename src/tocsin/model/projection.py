"""A block with some of its columns only, for readers that do not need all of them.

Columns have the names that clients use: body, key, timestamp, correlation_id, reply_to, type, expiry, group_id,
group_sequence, `properties` for all properties, and `property:NAME` for one. What is made is a block like any other,
with the same messages and the same header; one without its body has the body kind EMPTY.
"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.model.batch import Block, BodyKind, Column, Entry, encode_block
from tocsin.model.errors import IllegalState
from tocsin.model.limits import BATCH_COLUMNS_MAX

COLUMNS: dict[str, Column] = {column.name.lower(): column for column in Column if column is not Column.PROPERTY}
PROPERTIES = "properties"
PROPERTY = "property:"

_BODY, _PROPERTY = int(Column.BODY), int(Column.PROPERTY)


class Projection:
    """Which columns a reader wants, by name; made once, asked for each block."""

    __slots__ = ("_all_properties", "_columns", "_names")

    def __init__(self, wanted: Iterable[str]) -> None:
        names = set(wanted)
        if len(names) > BATCH_COLUMNS_MAX:
            raise IllegalState(f"A reader names {BATCH_COLUMNS_MAX} columns at most.")
        self._all_properties = PROPERTIES in names
        self._names = {name.removeprefix(PROPERTY) for name in names if name.startswith(PROPERTY)}
        self._columns: set[int] = set()
        for name in names:
            if name != PROPERTIES and not name.startswith(PROPERTY):
                self._columns.add(_column(name))

    def _keeps(self, entry: Entry) -> bool:
        if entry[0] == _PROPERTY:
            return self._all_properties or entry[2] in self._names
        return entry[0] in self._columns

    def of(self, block: Block) -> Block:
        """The block without the columns that are not wanted: a new one, when that makes it half as long or less.

        To copy and checksum what remains costs more than to send along what nobody reads, when that is little.
        """
        left_out = sum(_size(entry, block.count) for entry in block.directory() if not self._keeps(entry))
        return Block(project(block, self)) if 2 * left_out >= block.length else block

    def columns_of(self, block: Block) -> list[Entry]:
        return [entry for entry in block.directory() if self._keeps(entry)]


def project(block: Block, projection: Projection) -> bytes:
    """A block with only the columns that are wanted."""
    kept = projection.columns_of(block)
    header = block.header()
    if not any(entry[0] == _BODY for entry in kept):
        header.body_kind = BodyKind.EMPTY
    return encode_block(header, [block.column_at(entry) for entry in kept])


def _column(name: str) -> Column:
    column = COLUMNS.get(name)
    if column is None:
        known = ", ".join([*COLUMNS, PROPERTIES])
        raise IllegalState(f"There is no column {name!r}; a reader may ask for {known} and {PROPERTY}NAME.")
    return column


def _size(entry: Entry, count: int) -> int:
    _, _, _, validity, offsets, _, size = entry
    return size + (4 * (count + 1) if offsets else 0) + ((count + 7) // 8 if validity else 0)
