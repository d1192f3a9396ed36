"""What a command found, on standard output: rich on a terminal, tab-separated when piped, JSON when asked.

Everything else (notes, progress, errors) goes to standard error, so that a pipe carries data alone.

What a message or a server says is written as it is into a pipe. On a terminal it is made visible: an escape sequence
in a body or a name must not move the cursor, set the title or paste into the shell of who looks at it.
"""

from __future__ import annotations

import json
import os
import sys
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from tocsin.cli.quantities import show_duration, show_size
from tocsin.model.visible import visible, visible_bytes

WRITE_AT_BYTES = 64 * 1024


class PipeClosed(Exception):
    """Whoever read our output has gone, as `head` does; not an error."""


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    return str(value)


class LineWriter:
    """Lines to standard output in large writes. `flush` before waiting, or the user sees them late."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, PipeClosed):
            self.flush()

    def line(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data) + 1
        if self._size >= WRITE_AT_BYTES:
            self.flush()

    def json(self, value: object) -> None:
        self.line(to_json(value).encode("utf-8", "surrogatepass"))

    def flush(self) -> None:
        if not self._waiting:
            return
        data = b"\n".join(self._waiting) + b"\n"
        if on_terminal():
            data = visible_bytes(data)
        self._waiting.clear()
        self._size = 0
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:
            raise PipeClosed from error


def print_json(value: object) -> None:
    with LineWriter() as out:
        out.json(value)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that people read better in words: `value` goes into a pipe, `words` onto a terminal."""

    value: int | float
    words: str


def size(count: int) -> Quantity:
    return Quantity(count, show_size(count))


def duration_ms(milliseconds: int) -> Quantity:
    return Quantity(milliseconds, show_duration(milliseconds / 1000))


def counted(count: int, one: str, many: str) -> str:
    """`1 message was`, `2 messages were`: a sentence must fit its number."""
    return f"{count:,} {one if count == 1 else many}"


def on_terminal() -> bool:
    """Whether people read what a command finds, and not a program."""
    return sys.stdout.isatty()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A table on a terminal, with numbers to the right; when piped one row a line, tab-separated, without the column
    names.
    """
    if not on_terminal():
        with LineWriter() as out:
            for row in rows:
                out.line("\t".join(map(_cell, row)).encode())
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    shown = list(rows)
    table = Table(
        title=None if title is None else for_table(title),
        title_justify="left",
        title_style="bold cyan",
        header_style="bold",
        show_header=any(columns),
        # Few lines: more room for what counts on a terminal of 80 columns.
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for place, column in enumerate(columns):
        is_numbers = bool(shown) and all(_is_number(row[place]) for row in shown)
        # Where room is short, cells are folded and not cut: nothing is lost.
        table.add_column(column, justify="right" if is_numbers else "left", overflow="fold")
    for row in shown:
        table.add_row(*(for_table(_cell(value)) for value in row))
    Console().print(table)


def for_table(text: str) -> str:
    """Somebody else's text as a cell: neither a control character nor rich's own markup means anything in it."""
    from rich.markup import escape

    return escape(visible(text))


def print_fields(fields: Mapping[str, object], title: str | None = None) -> None:
    """One thing, a field a line: aligned on a terminal, `name<TAB>value` when piped."""
    print_table(("", ""), [(name.replace("_", " "), value) for name, value in fields.items()], title)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float | Quantity) and not isinstance(value, bool))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Quantity):
        if on_terminal():
            return value.words
        value = value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if on_terminal():
            return show_number(value)
        return str(value) if isinstance(value, int) else f"{value:.10g}"
    if isinstance(value, Mapping | list | tuple):
        return to_json(value)
    return str(value)


def show_number(value: int | float) -> str:
    """For eyes: thousands apart, and no digits that say nothing."""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}".rstrip("0").rstrip(".")


def note(text: str) -> None:
    """For the user's eyes, never for a pipe."""
    print(visible(text) if sys.stderr.isatty() else text, file=sys.stderr, flush=True)


def abandon_output() -> None:
    """After the reader has gone: nothing may try to write the rest when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
