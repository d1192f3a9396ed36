"""An Arrow batch of rows as columns of blocks, ready to be staged or sent.

A block has one destination, one priority, one delivery time and one kind of body, so rows that differ in these are
taken apart first: by Arrow, never row by row. Then each part is halved until it fits a block. Rows with the same
destination, priority and delay keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.client.staging import StagedColumns
from tocsin.model.batch import BodyKind, Column, ColumnData
from tocsin.model.dead_notes import ATTEMPTS, OFFSET
from tocsin.model.destination import Destination, Kind, check_name, parse_destination
from tocsin.model.errors import InvalidDestination, TocsinError
from tocsin.model.limits import BATCH_MESSAGES_MAX, BLOCK_BYTES_MAX, CLIENT_COLUMNS_MAX, SINK_BLOCK_BYTES
from tocsin.model.message import PRIORITY_DEFAULT
from tocsin.model.values import Type
from tocsin.spark.block_columns import fixed_column, is_text, plain, variable_column
from tocsin.spark.frame_rows import FrameRows
from tocsin.spark.property_columns import BadHeader, property_columns
from tocsin.spark.row_checks import (
    check_delays,
    check_keys,
    check_priority,
    check_sizes,
    check_string,
    check_text,
    check_times,
    check_topics,
    refusal,
)

_DELTA_MAX = 2**31 - 1
_NUMBERS = {ATTEMPTS: (Type.INT, pa.int32()), OFFSET: (Type.LONG, pa.int64())}

TextColumn = tuple[Column, Type, str, Any]
"""A column of strings or bytes: which one, its type, a property's name, and the Arrow array."""


class Lot(NamedTuple):
    """What the rows of a block have in common; a delay in ms, and the time in ms since 1970."""

    destination: Destination
    priority: int
    delay: int
    now: int


@dataclass(frozen=True, slots=True)
class RowShape:
    """Which column of a frame is which part of a message, by position; None where the frame has no such column."""

    value: int
    key: int | None = None
    headers: int | None = None
    topic: int | None = None
    priority: int | None = None
    delay: int | None = None
    timestamp: int | None = None
    expiry: int | None = None
    group_sequence: int | None = None
    strings: tuple[tuple[Column, int], ...] = ()
    """Headers that are strings: correlation id, reply-to, type and group."""
    destination: Destination | None = None
    """Where all rows go, whatever the topic column says."""


@dataclass(frozen=True, slots=True)
class Cutter:
    """Makes blocks of rows for a server that takes messages up to a size."""

    shape: RowShape
    message_bytes_max: int
    block_bytes_max: int = BLOCK_BYTES_MAX

    @property
    def _block_bytes(self) -> int:
        """What rows fill a block up to; their columns are about as large in it, and may be a little larger."""
        return min(SINK_BLOCK_BYTES, self.block_bytes_max // 2)

    def blocks(self, rows: FrameRows, now: int) -> Iterator[tuple[Destination, StagedColumns]]:
        """Where each block of some rows goes, and its columns; `now` in ms since 1970."""
        for destination, same_destination in self._by_destination(rows):
            for priority, same_priority in self._by_priority(same_destination):
                for delay, alike in self._by_delay(same_priority):
                    lot = Lot(destination, priority, delay, now)
                    for columns in self._with_one_kind_of_body(alike, lot):
                        yield destination, columns

    # Taking apart.

    def _by_destination(self, rows: FrameRows) -> Iterator[tuple[Destination, FrameRows]]:
        if not len(rows):
            return
        if self.shape.destination is not None:
            yield self.shape.destination, rows
            return
        names = plain(rows.column(self.shape.topic)).cast(pa.binary())
        check_topics(rows, names)
        for name, part in rows.split(names):
            try:
                destination = destination_named(name.decode())
            except (TocsinError, UnicodeDecodeError) as error:
                raise InvalidDestination(f"The topic of {part.place(0)} can't be used. {error}") from None
            yield destination, part

    def _by_priority(self, rows: FrameRows) -> Iterator[tuple[int, FrameRows]]:
        column = rows.column(self.shape.priority)
        if column is None:
            yield PRIORITY_DEFAULT, rows
            return
        priorities = pc.fill_null(column.cast(pa.int64()), PRIORITY_DEFAULT)
        for priority, part in rows.split(priorities):
            check_priority(part, priority)
            yield priority, part

    def _by_delay(self, rows: FrameRows) -> Iterator[tuple[int, FrameRows]]:
        """Delays in milliseconds, rounded up so that none becomes no delay."""
        column = rows.column(self.shape.delay)
        if column is None:
            yield 0, rows
            return
        if pa.types.is_duration(column.type):
            column = pc.divide(column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.float64()), 1e6)
        seconds = pc.fill_null(column.cast(pa.float64()), 0.0)
        check_delays(rows, seconds)
        yield from rows.split(pc.ceil(pc.multiply(seconds, 1000.0)).cast(pa.int64()))

    def _with_one_kind_of_body(self, rows: FrameRows, lot: Lot) -> Iterator[StagedColumns]:
        values = rows.column(self.shape.value)
        if values.null_count in (0, len(rows)):
            yield from self._that_fit(rows, lot, empty=values.null_count > 0)
            return
        for empty, run in rows.runs(pc.is_null(values)):
            yield from self._that_fit(run, lot, empty)

    def _that_fit(self, rows: FrameRows, lot: Lot, empty: bool) -> Iterator[StagedColumns]:
        too_many = len(rows) > BATCH_MESSAGES_MAX or rows.is_larger_than(self._block_bytes)
        made = None if too_many and len(rows) > 1 else self._columns(rows, lot, empty)
        if made is not None:
            yield made
            return
        for half in rows.halves():
            yield from self._that_fit(half, lot, empty)

    # Putting together.

    def _columns(self, rows: FrameRows, lot: Lot, empty: bool) -> StagedColumns | None:
        """The columns of one block; None when the rows must be halved to fit it."""
        texts = self._texts(rows, lot, empty)
        wide = 4 * len(rows) * len(texts) > self._block_bytes
        if len(rows) > 1 and (wide or len(texts) > CLIENT_COLUMNS_MAX):
            return None
        if len(texts) > CLIENT_COLUMNS_MAX:
            raise refusal(rows, 0, lot.destination, f"has {len(texts)} headers; {CLIENT_COLUMNS_MAX} is the most")
        check_keys(rows, rows.column(self.shape.key), lot.destination)
        check_sizes(rows, [values for _, _, _, values in texts], self.message_bytes_max, lot.destination)
        base, deltas = lot.now, None
        if self.shape.timestamp is not None:
            times = self._times(rows, lot)
            base, last = (part.as_py() for part in pc.min_max(times).values())
            if last - base > _DELTA_MAX:
                return None
            deltas = pc.subtract(times, base).cast(pa.int32()) if last > base else None
        columns = [text_or_note(column, kind, name, values) for column, kind, name, values in texts]
        if deltas is not None:
            columns.append(fixed_column(Column.TIMESTAMP, Type.INT, "", deltas))
        sequences = rows.column(self.shape.group_sequence)
        if sequences is not None and sequences.null_count < len(sequences):
            columns.append(fixed_column(Column.GROUP_SEQUENCE, Type.INT, "", sequences.cast(pa.int32())))
        earliest, expiries = self._expiries(rows)
        if expiries is not None:
            columns.append(fixed_column(Column.EXPIRY, Type.LONG, "", expiries))
        kind = self._body_kind(rows, empty)
        # The server counts a delay from the timestamp to the delivery time, whenever the row says that it was sent.
        due = base + lot.delay if lot.delay else 0
        return StagedColumns(len(rows), kind, columns, lot.priority, due, base, earliest)

    def _times(self, rows: FrameRows, lot: Lot) -> Any:
        times = pc.fill_null(_milliseconds(rows.column(self.shape.timestamp)), lot.now)
        check_times(rows, times, lot.destination)
        return times

    def _expiries(self, rows: FrameRows) -> tuple[int, Any]:
        """The earliest time of expiry and that of each row, 0 for never; 0 and None when no row has one."""
        stamps = rows.column(self.shape.expiry)
        if stamps is None or stamps.null_count == len(stamps):
            return 0, None
        # A time before 1970 is as much in the past as the first millisecond after it.
        times = pc.max_element_wise(_milliseconds(stamps), 1, skip_nulls=False)
        return int(pc.min(times).as_py()), pc.fill_null(times, 0)

    def _body_kind(self, rows: FrameRows, empty: bool) -> BodyKind:
        if empty:
            return BodyKind.EMPTY
        return BodyKind.TEXT if is_text(rows.column(self.shape.value)) else BodyKind.BYTES

    def _texts(self, rows: FrameRows, lot: Lot, empty: bool) -> list[TextColumn]:
        """All columns of strings and bytes: body, key and properties."""
        texts: list[TextColumn] = []
        if not empty:
            values = plain(rows.column(self.shape.value))
            if is_text(values):
                check_text(rows, values, lot.destination)
            texts.append((Column.BODY, Type.BYTES, "", values))
        keys = rows.column(self.shape.key)
        if keys is not None and keys.null_count < len(keys):
            texts.append((Column.KEY, Type.BYTES, "", plain(keys)))
        for column, index in self.shape.strings:
            values = plain(rows.column(index))
            if values.null_count < len(values):
                check_string(rows, column, values, lot.destination)
                texts.append((column, Type.STRING, "", values))
        headers = rows.column(self.shape.headers)
        if headers is not None:
            try:
                texts += property_columns(headers)
            except BadHeader as bad:
                raise refusal(rows, bad.row, lot.destination, f"can't be written: {bad}") from None
        return texts


def text_or_note(column: int, kind: Type, name: str, values: Any) -> ColumnData:
    """Headers are text. What servers note on dead messages as a number is one here, too: selectors compare it."""
    wanted = _NUMBERS.get(name)
    if wanted is not None:
        with suppress(pa.ArrowInvalid):
            return fixed_column(column, wanted[0], name, values.cast(wanted[1]))
    return variable_column(column, kind, name, values)


def _milliseconds(stamps: Any) -> Any:
    return stamps.cast(pa.timestamp("ms", stamps.type.tz), safe=False).cast(pa.int64())


def destination_named(text: str) -> Destination:
    """A topic by its bare name; queue:NAME and topic:NAME say the kind."""
    if text.startswith(("queue:", "topic:")):
        return parse_destination(text)
    return Destination(Kind.TOPIC, check_name(text, "topic"))
