"""What a run shows: one line of progress while it goes on, on standard error, and the report at its end."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tocsin.cli.output import note, print_fields, print_json, print_table, show_number
from tocsin.model.visible import visible

if TYPE_CHECKING:
    from tocsin.spark.pipelines.definition import Report
    from tocsin.spark.pipelines.watching import Watched

QUIET_SECONDS = 10.0
"""How often progress is a line of its own where no terminal can show it in place."""
DESTINATIONS_SHOWN = 4


class ProgressLine:
    """On a terminal one line that is written over; in a log a line now and then, when there is news."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = ""
        self._next = time.monotonic() + QUIET_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def wait(self, doing: str) -> None:
        if self._terminal:
            self._write(f"{doing}...")

    def show(self, watched: Watched) -> None:
        text = progress_text(watched)
        if self._terminal:
            self._write(text)
        elif time.monotonic() >= self._next and text != self._shown and watched.rows:
            self._next = time.monotonic() + QUIET_SECONDS
            self._shown = text
            note(text)

    def note(self, sentence: str) -> None:
        self._clear()
        note(sentence)

    def _write(self, text: str) -> None:
        if text != self._shown:
            import shutil

            self._shown = text
            room = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[2K{visible(text)[:room]}")
            sys.stderr.flush()

    def _clear(self) -> None:
        if self._terminal and self._shown:
            self._shown = ""
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def progress_text(watched: Watched) -> str:
    words = [f"{watched.rows:,} rows"]
    if watched.batches:
        words.append(f"{show_number(round(watched.rows_per_second))} rows/s")
        words.append(f"batch {watched.batches:,}")
    if watched.lag:
        behind = sorted(watched.lag.items(), key=lambda each: (-each[1], each[0]))
        shown = ", ".join(f"{name} {lag:,}" for name, lag in behind[:DESTINATIONS_SHOWN])
        more = f" and {len(behind) - DESTINATIONS_SHOWN} more" if len(behind) > DESTINATIONS_SHOWN else ""
        words.append(f"lag {shown}{more}")
    return "   ".join(words)


def show_report(report: Report, json: bool) -> None:
    if json:
        print_json(report.values)
        return
    if report.tables:
        for table in report.tables:
            if table.rows:
                print_table(table.columns, table.rows, table.title or None)
    elif report.values:
        print_fields({name: _shown(value) for name, value in report.values.items()})
    for sentence in report.notes:
        note(sentence)


def _shown(value: Any) -> Any:
    """A mapping such as the lag of each destination as words."""
    if isinstance(value, dict) and all(isinstance(each, int | float) for each in value.values()):
        return ", ".join(f"{name} {show_number(each)}" for name, each in value.items()) or None
    return value
