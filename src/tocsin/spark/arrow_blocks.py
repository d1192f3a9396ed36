"""Blocks of messages as Arrow record batches, without a Python object per message.

A block's columns have Arrow's form already (see tocsin.model.batch): their bytes are wrapped where they lie. Blocks are
smaller than what Spark likes to get at once, so those of several are joined; that is one copy of each column, in C.
What all rows share (topic, partition) is made once and cut to length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.batch import FLAG_NO_MESSAGE_ID, Block, Column, DeliveryMode
from tocsin.model.message import MODE_WORDS, message_id
from tocsin.model.spark_limits import SPARK_BATCH_BYTES, SPARK_BATCH_ROWS
from tocsin.spark.arrow_columns import BlockColumns, Ranges, constant, counted, number, numbers, pick
from tocsin.spark.arrow_properties import headers_of, properties_of, property_of
from tocsin.spark.schema import PROPERTY, Wanted

TIMESTAMP = pa.timestamp("us", tz="UTC")
THOUSAND = number(1000)
_RUNS = pa.run_end_encoded(pa.int64(), pa.int64())
CREATE_TIME, APPEND_TIME = 0, 1
"""Kafka's numbers: whether the sender set a message's timestamp or the server did."""


class BlockInRange(Protocol):
    """What a range read hands out: a block, where it lies in its destination, and which messages of it are meant."""

    @property
    def offset(self) -> int: ...
    @property
    def append_time(self) -> int: ...
    @property
    def ranges(self) -> Ranges: ...
    @property
    def block(self) -> Block: ...


class Part:
    """One block on its way into a record batch."""

    __slots__ = ("append_time", "block", "columns", "offset", "ranges", "rows", "whole")

    def __init__(self, found: BlockInRange) -> None:
        self.block = found.block
        self.offset = found.offset
        self.append_time = found.append_time
        self.ranges = found.ranges
        if len(self.ranges) == 1:
            ((start, end),) = self.ranges
            self.rows = end - start
        else:
            self.rows = sum(end - start for start, end in self.ranges)
        self.whole = self.rows == self.block.count
        self.columns = BlockColumns(self.block)

    @property
    def timestamp_type(self) -> int:
        return CREATE_TIME if self.block.base_timestamp else APPEND_TIME


PartMaker = Callable[[Part], Any]
"""Makes the array of all rows of a block."""
Maker = Callable[[Sequence[Part]], Any]
"""Makes a whole column of a record batch."""


def record_batches(found: Iterable[BlockInRange], name: str, wanted: Sequence[Wanted], schema: Any) -> Iterator[Any]:
    """Record batches of a good size, in the order of the blocks; all of the destination with that name."""
    makers = [_maker(each, name, field.type) for each, field in zip(wanted, schema, strict=True)]
    parts: list[Part] = []
    rows = size = 0
    for each in found:
        part = Part(each)
        if not part.rows:
            continue
        if parts and (rows + part.rows > SPARK_BATCH_ROWS or size + part.block.length > SPARK_BATCH_BYTES):
            yield pa.RecordBatch.from_arrays([make(parts) for make in makers], schema=schema)
            parts, rows, size = [], 0, 0
        parts.append(part)
        rows += part.rows
        size += part.block.length
    if parts:
        yield pa.RecordBatch.from_arrays([make(parts) for make in makers], schema=schema)


def _maker(wanted: Wanted, name: str, kind: Any) -> Maker:
    if wanted.column == "topic":
        return _of_blocks(lambda part: name, kind)
    if wanted.column == PROPERTY:
        return _joined(lambda part: property_of(part.columns, wanted.prop, kind))
    if wanted.column == "headers":
        return _joined(lambda part: headers_of(part.columns, kind))
    if wanted.column == "properties":
        return _joined(lambda part: properties_of(part.columns, kind))
    return _MAKERS[wanted.column]


def _joined(make: PartMaker) -> Maker:
    """A column block by block, of each only the rows that are meant, joined."""

    def column(parts: Sequence[Part]) -> Any:
        arrays = [make(part) if part.whole else pick(make(part), part.ranges) for part in parts]
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)

    return column


def _of_blocks(value: Callable[[Part], Any], kind: Any) -> Maker:
    """A column in which all rows of a block have the same value."""

    def column(parts: Sequence[Part]) -> Any:
        runs: list[tuple[Any, int]] = []
        for part in parts:
            found = value(part)
            if runs and runs[-1][0] == found:
                runs[-1] = found, runs[-1][1] + part.rows
            else:
                runs.append((found, part.rows))
        arrays = [constant(found, rows, kind) for found, rows in runs]
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)

    return column


def _offsets(parts: Sequence[Part]) -> Any:
    """Neighbouring blocks count on, so a record batch seldom has more than one run."""
    runs: list[tuple[int, int]] = []
    for part in parts:
        for start, end in part.ranges:
            first, last = part.offset + start, part.offset + end
            if runs and runs[-1][1] == first:
                runs[-1] = runs[-1][0], last
            else:
                runs.append((first, last))
    arrays = [pc.add(counted(last - first), number(first)) for first, last in runs]
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _timestamps(parts: Sequence[Part]) -> Any:
    """When a message was sent; when it was stored, should the sender have given no time."""
    if any(part.block.base_timestamp and part.block.has_column(Column.TIMESTAMP) for part in parts):
        return _own_timestamps(parts)
    return _times_of_blocks(parts, lambda part: part.block.base_timestamp or part.append_time)


def _timestamps_of(part: Part) -> Any:
    base = part.block.base_timestamp
    deltas = part.columns.fixed(Column.TIMESTAMP, pa.int32()) if base else None
    if deltas is None:
        return pa.repeat(number((base or part.append_time) * 1000), part.block.count).view(TIMESTAMP)
    milliseconds = pc.add(deltas.cast(pa.int64()), number(base))
    return pc.multiply(milliseconds, THOUSAND).view(TIMESTAMP)


_own_timestamps = _joined(_timestamps_of)


def _times_of_blocks(parts: Sequence[Part], milliseconds: Callable[[Part], int]) -> Any:
    """One time for all rows of a block: most blocks have one of their own, so no two are looked for that are alike."""
    times = numbers([milliseconds(part) * 1000 for part in parts])
    ends = list(accumulate(part.rows for part in parts))
    # Not `from_arrays`: it makes a number of Arrow's from a plain one, see there.
    runs = pa.RunEndEncodedArray.from_buffers(_RUNS, ends[-1], [None], children=[numbers(ends), times])
    return pc.run_end_decode(runs).view(TIMESTAMP)


def _expiries(part: Part) -> Any:
    """Null for a message that never expires."""
    times = part.columns.fixed(Column.EXPIRY, pa.int64()) if part.block.earliest_expiry else None
    if times is None:
        return pa.nulls(part.block.count, TIMESTAMP)
    never = pc.equal(times, number(0))
    return pc.if_else(never, pa.scalar(None, pa.int64()), pc.multiply(times, THOUSAND)).view(TIMESTAMP)


def _message_ids(part: Part) -> Any:
    """The one column that is made message by message: ids are computed from producer and sequence."""
    block = part.block
    if block.flags & FLAG_NO_MESSAGE_ID:
        return pa.nulls(block.count, pa.string())
    first = block.first_sequence
    return pa.array([message_id(block.producer_id, first + row) for row in range(block.count)], pa.string())


def _text(column: Column) -> Maker:
    return _joined(lambda part: part.columns.variable(column, pa.string()))


_MODE_WORDS = {int(mode): word for mode, word in MODE_WORDS.items()}
assert set(_MODE_WORDS) == set(map(int, DeliveryMode))

_MAKERS: dict[str, Maker] = {
    "key": _joined(lambda part: part.columns.variable(Column.KEY, pa.binary())),
    "value": _joined(lambda part: part.columns.variable(Column.BODY, pa.binary())),
    "partition": _of_blocks(lambda part: 0, pa.int32()),
    "offset": _offsets,
    "timestamp": _timestamps,
    "timestampType": _of_blocks(lambda part: part.timestamp_type, pa.int32()),
    "messageId": _joined(_message_ids),
    "correlationId": _text(Column.CORRELATION_ID),
    "replyTo": _text(Column.REPLY_TO),
    "type": _text(Column.TYPE),
    "priority": _of_blocks(lambda part: part.block.priority, pa.int32()),
    "expiry": _joined(_expiries),
    "deliveryMode": _of_blocks(lambda part: _MODE_WORDS[part.block.delivery_mode], pa.string()),
    "groupId": _text(Column.GROUP_ID),
    "groupSequence": _joined(lambda part: part.columns.fixed_or_nulls(Column.GROUP_SEQUENCE, pa.int32())),
    "bodyKind": _of_blocks(lambda part: part.block.body_kind.name.lower(), pa.string()),
    "appendTime": lambda parts: _times_of_blocks(parts, lambda part: part.append_time),
}
