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
