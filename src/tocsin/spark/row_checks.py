"""What a row must be to become a message; a refusal names the row by its place in the frame that is written.

Each check looks at a whole column first, and at single rows only to find the one to name.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.batch import Column
from tocsin.model.destination import Destination, parse_destination
from tocsin.model.errors import InvalidDestination, MessageFormatError, MessageTooLarge
from tocsin.model.limits import HEADER_TEXT_BYTES_MAX, PRIORITY_MAX
from tocsin.spark.block_columns import content_bytes, plain
from tocsin.spark.frame_rows import FrameRows

DELAY_SECONDS_MAX = 1e12


def refusal(
    rows: FrameRows,
    row: int,
    to: Destination,
    what: str,
    kind: type[MessageFormatError | MessageTooLarge] | None = None,
) -> MessageFormatError | MessageTooLarge:
    """The error that says what is wrong with a row."""
    place = rows.place(row)
    return (kind or MessageFormatError)(f"{place[0].upper()}{place[1:]}, for {to}, {what}.")


def check_topics(rows: FrameRows, names: Any) -> None:
    if names.null_count:
        row = _first(pc.is_null(names))
        raise InvalidDestination(
            f"The topic of {rows.place(row)} is null; fill the topic column, or name one with option('topic', ...)."
        )


def check_priority(rows: FrameRows, priority: int) -> None:
    if not 0 <= priority <= PRIORITY_MAX:
        raise MessageFormatError(f"The priority of {rows.place(0)} is {priority}; a priority is 0 to {PRIORITY_MAX}.")


def check_delays(rows: FrameRows, seconds: Any) -> None:
    good = pc.and_(pc.greater_equal(seconds, 0.0), pc.less(seconds, DELAY_SECONDS_MAX))
    if not pc.all(good).as_py():
        row = _first(pc.invert(good))
        found = seconds[row].as_py()
        raise MessageFormatError(
            f"The delay of {rows.place(row)} is {found:g} s; a delay is a number of seconds from 0 on."
        )


def check_times(rows: FrameRows, times: Any, to: Destination) -> None:
    if pc.min(times).as_py() <= 0:
        row = _first(pc.less_equal(times, 0))
        raise refusal(rows, row, to, "has a timestamp that is not after 1970 began")


def check_text(rows: FrameRows, values: Any, to: Destination) -> None:
    """Spark does not check what it casts to string, and the body of a text message must be text."""
    row = _first_that_is_no_text(values)
    if row is not None:
        what = "has a string value that is not valid UTF-8; cast(value as binary) writes bytes as they are"
        raise refusal(rows, row, to, what)


def check_string(rows: FrameRows, column: Column, values: Any, to: Destination) -> None:
    """A header of one row: text, not too long, and the name of a destination where it must be one."""
    name = column.name.lower().replace("_", " ")
    row = _first_that_is_no_text(values)
    if row is not None:
        raise refusal(rows, row, to, f"has a {name} that is not valid UTF-8")
    _check_length(rows, values, name, to)
    if column is Column.REPLY_TO:
        for text in values.drop_null().unique().to_pylist():
            try:
                parse_destination(text)
            except InvalidDestination as error:
                row = int(pc.index(values, text).as_py())
                raise refusal(rows, row, to, f"has a bad reply to: {error}".rstrip(".")) from None


def _first_that_is_no_text(values: Any) -> int | None:
    if _is_valid(values):
        return None
    start, count = 0, len(values)
    while count > 1:
        half = count // 2
        if _is_valid(values.slice(start, half)):
            start, count = start + half, count - half
        else:
            count = half
    return start


def check_keys(rows: FrameRows, keys: Any, to: Destination) -> None:
    if keys is not None:
        _check_length(rows, plain(keys), "key", to)


def _check_length(rows: FrameRows, values: Any, name: str, to: Destination) -> None:
    if content_bytes(values) <= HEADER_TEXT_BYTES_MAX:
        return
    row, size = _largest_over(pc.binary_length(values), HEADER_TEXT_BYTES_MAX)
    if size:
        what = f"has a {name} of {size:,} bytes; {HEADER_TEXT_BYTES_MAX:,} is the most"
        raise refusal(rows, row, to, what, MessageTooLarge)


def check_sizes(rows: FrameRows, texts: list[Any], message_bytes_max: int, to: Destination) -> None:
    """What a client checks message by message; rows that are small together need no look at each."""
    if sum(map(content_bytes, texts)) <= message_bytes_max:
        return
    sizes = pa.nulls(len(rows), pa.int64()).fill_null(0)
    for values in texts:
        sizes = pc.add(sizes, pc.fill_null(pc.binary_length(values), 0))
    row, size = _largest_over(sizes, message_bytes_max)
    if size:
        what = f"has {size:,} bytes; {message_bytes_max:,} is the most that the server takes"
        raise refusal(rows, row, to, what, MessageTooLarge)


def _is_valid(values: Any) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _first(flags: Any) -> int:
    return int(pc.index(flags, True).as_py())


def _largest_over(sizes: Any, limit: int) -> tuple[int, int]:
    """The first row with the largest size, and that size; (0, 0) when none is over the limit."""
    size = pc.max(sizes)
    if (size.as_py() or 0) <= limit:
        return 0, 0
    return int(pc.index(sizes, size).as_py()), int(size.as_py())
