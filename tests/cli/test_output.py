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
    Quantity,
    abandon_output,
    counted,
    duration_ms,
    note,
    print_fields,
    print_json,
    print_table,
    size,
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


def test_numbers_stand_to_the_right_and_texts_to_the_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_table(("name", "count", "size"), [("a", 5, size(1536)), ("much longer", 1000, None)])
    *_, first, second, _ = terminal.getvalue().splitlines()
    assert first.split() == ["a", "5", "1.5", "KiB"]
    assert first.index("a") == second.index("much longer")
    assert first.index("5") == second.index("1,000") + 4
    assert second.rstrip().endswith("-")
    assert len(second.rstrip()) == len(first.rstrip())


def test_a_quantity_is_a_number_in_a_pipe_and_words_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    row = (size(10 * 2**30), duration_ms(604_800_000), Quantity(0.25, "a quarter"))
    print_table(("", "", ""), [row])
    assert capfdbinary.readouterr().out == b"10737418240\t604800000\t0.25\n"
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_table(("", "", ""), [row])
    assert terminal.getvalue().split() == ["10.0", "GiB", "7d", "a", "quarter"]


def test_sentences_fit_their_numbers() -> None:
    assert counted(1, "message was", "messages were") == "1 message was"
    assert [counted(n, "message", "messages") for n in (0, 2_000)] == ["0 messages", "2,000 messages"]


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


class ByteTerminal(io.TextIOWrapper):
    """A terminal that bytes can be written to, as commands write bodies."""

    def isatty(self) -> bool:
        return True


HOSTILE = "\x1b]0;pwned\x07 \x9b2J \u202eexe\r\tend"
SHOWN = r"\x1b]0;pwned\x07 \x9b2J \u202eexe\x0d"


def test_a_terminal_shows_escapes_of_others_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", ByteTerminal(raw, "utf-8"))
    with LineWriter() as out:
        out.line(HOSTILE.encode())
        out.line(b"\xff\x1b[31m")
        out.json({"name": HOSTILE})
    seen = raw.getvalue().decode()
    assert SHOWN + "\tend\n" in seen and r"\xff\x1b[31m" in seen
    assert not any(bad in seen for bad in "\x1b\x07\x9b\u202e\r")


def test_a_pipe_gets_what_a_message_has(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with LineWriter() as out:
        out.line(HOSTILE.encode() + b"\xff")
    print_table(("name",), [(HOSTILE,)])
    assert capfdbinary.readouterr().out == HOSTILE.encode() + b"\xff\n" + HOSTILE.encode() + b"\n"


def test_a_table_on_a_terminal_obeys_neither_escapes_nor_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    print_table(("name",), [(HOSTILE + "[red]x[/red]",)], title=HOSTILE + "[bold]t[/bold]")
    seen = terminal.getvalue()
    assert seen.count(SHOWN) == 2 and "[red]x[/red]" in seen and "[bold]t[/bold]" in seen
    assert not any(bad in seen for bad in "\x07\x9b\u202e\r") and "\x1b]" not in seen


def test_a_note_on_a_terminal_shows_escapes_written_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    note(HOSTILE)
    assert capsys.readouterr().err == HOSTILE + "\n"
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    note(HOSTILE)
    assert terminal.getvalue() == SHOWN + "\tend\n"
