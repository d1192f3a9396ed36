"""What a server's process says when it starts. Signals and exit codes are shown by tests/cli and tests/system."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from tocsin.node.process import _own_name, first_commands, set_up_log


def test_the_first_commands_can_be_copied() -> None:
    send, receive = first_commands("tocsin", "tocsin://127.0.0.1:7177", with_users=False)
    assert send == "tocsin send --url tocsin://127.0.0.1:7177 orders 'two dozen'"
    assert receive == "tocsin receive --url tocsin://127.0.0.1:7177 orders --count 1"


def test_they_name_a_user_where_one_is_needed() -> None:
    for command in first_commands("tocsin", "tocsin://127.0.0.1:7177", with_users=True):
        assert "--url tocsin://127.0.0.1:7177 --user NAME orders" in command


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "[::]"])
def test_a_server_on_all_addresses_is_called_at_this_machine(everywhere: str) -> None:
    send, _ = first_commands("tocsin", f"tocsins://{everywhere}:7200", with_users=False)
    assert "--url tocsins://localhost:7200 " in send


@pytest.mark.parametrize(
    ("called", "found", "name"),
    [
        (".venv/bin/tocsin", False, ".venv/bin/tocsin"),
        (".venv/bin/tocsin", True, "tocsin"),
        ("main.py", False, "tocsin"),
    ],
)
def test_who_called_it_by_a_path_is_told_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, called: str, found: bool, name: str
) -> None:
    script = tmp_path / "tocsin"
    if found:
        script.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [called, "serve"])
    assert _own_name() == name


@pytest.mark.parametrize("as_json", [False, True])
def test_what_others_say_steers_no_terminal_from_a_log(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    set_up_log(as_json)
    logging.getLogger("tocsin").warning("a client said %s", "\x1b]0;title\x07\u202e")
    written = capsys.readouterr().err
    assert written.isascii() and "title" in written
    assert not any(bad in written for bad in "\x1b\x07")
