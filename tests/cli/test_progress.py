"""Progress: on a terminal only, and never on standard output."""

from __future__ import annotations

import io
import sys

import pytest

from tocsin.cli.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_sees_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("Checking", 10) as advance:
        advance(5)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("Checking", 10) as advance:
        advance(5)
    assert "Checking" in terminal.getvalue()
    assert "5/10" in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_bytes_are_shown_as_sizes_and_never_more_than_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("Reading", 64 * 2**20, in_bytes=True) as advance:
        advance(64 * 2**20)
        advance(2**20)
    assert "64.0/64.0 MiB" in terminal.getvalue()
    assert "65.0" not in terminal.getvalue()
