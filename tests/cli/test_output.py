"""Output for pipes: plain, flushed, and quiet when the reader has gone."""

from __future__ import annotations

import io
import json
import os
import sys
from datetime import UTC, datetime

import pytest

from tocsin.cli.output import (
    LineWriter,
    PipeClosed,
    abandon_output,
    print_fields,
    print_json,
    print_table,
    to_json,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_piped_table_is_tab_separated_without_names(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_table(("name", "count", "kept"), [("orders", 1234567, True), ("x[b]", None, False)])
    assert capfdbinary.readouterr().out == b"orders\t1234567\tyes\nx[b]\t-\tno\n"


def test_piped_fields_are_a_line_each(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_fields({"max_age": 1.5, "subscriptions": [{"name": "a"}]})
    assert capfdbinary.readouterr().out == b'max age\t1.5\nsubscriptions\t[{"name": "a"}]\n'


def test_a_terminal_gets_a_table_with_names_and_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_table(("name", "count"), [("x[bold]", 1234567)])
    shown = terminal.getvalue()
    assert "name" in shown
    assert "x[bold]" in shown
    assert "1,234,567" in shown


def test_json_takes_what_messages_hold() -> None:
    value = {"raw": b"\x00\xff", "when": datetime(2026, 1, 31, tzinfo=UTC), "text": "ü"}
    assert json.loads(to_json(value)) == {"raw": "AP8=", "when": "2026-01-31T00:00:00+00:00", "text": "ü"}
    assert "ü" in to_json(value)


def test_json_is_one_line(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_json({"text": "a\nb"})
    assert capfdbinary.readouterr().out == b'{"text": "a\\nb"}\n'


def test_lines_are_written_when_enough_have_come_or_at_the_end(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    with LineWriter() as out:
        out.line(b"small")
        assert capfdbinary.readouterr().out == b""
        out.line(b"x" * 65536)
        assert len(capfdbinary.readouterr().out) == 65536 + 7
        out.line(b"last")
    assert capfdbinary.readouterr().out == b"last\n"


def test_a_closed_pipe_is_told_apart_from_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with io.TextIOWrapper(io.BufferedWriter(io.FileIO(os.dup(writing), "w"))) as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(PipeClosed), LineWriter() as out:
            out.line(b"lost")
        # What could not be written must not be tried again when the file is closed.
        abandon_output()
    os.close(writing)
