"""The command tree: usage errors, version, exit codes, and errors as sentences."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tocsin
from tocsin.cli import main
from tocsin.cli.output import PipeClosed
from tocsin.model.errors import ConnectionFailed

RUNNER = CliRunner()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["fly"], "No such command"),
        (["send"], "Missing argument"),
        (["send", "two words", "x"], "white space"),
        (["send", "orders", "x", "--ttl", "soon"], "not a duration"),
        (["send", "orders", "x", "--priority", "10"], "--priority"),
        (["send", "orders", "x", "--property", "amount:int=five"], "not of type int"),
        (["send", "orders", "x", "--file", "y"], "not both"),
        (["send", "orders", "x", "--reply-to", "stack:y"], "not a kind of destination"),
        (["receive", "orders", "--durable"], "topic:orders"),
        (["receive", "topic:prices", "--durable"], "--subscription"),
        (["receive", "topic:prices", "--from", "yesterday"], "earliest"),
        (["receive", "orders", "--count", "0"], "--count"),
        (["browse", "topic:prices"], "Only queues"),
        (["destinations", "create", "topic:x", "--max-bytes", "much"], "not a size"),
        (["bench", "tea"], "tea"),
        (["bench", "e2e", "--rate", "5"], "--rate means something to latency and selector"),
        (["bench", "e2e", "--size", "4"], "--size"),
        (["bench", "all", "--url", "tocsin://localhost"], "leave --url away"),
        (["bench", "recovery", "--url", "tocsin://localhost"], "leave --url away"),
        (["serve", "--sync", "sometimes"], "--sync"),
        (["journal", "check", "no-such-directory"], "does not exist"),
    ],
)
def test_usage_errors_end_with_2_and_say_what_is_wrong(arguments: list[str], complaint: str) -> None:
    result = RUNNER.invoke(main.app, arguments, env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"})
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""


def test_help_lists_every_verb() -> None:
    result = RUNNER.invoke(main.app, ["--help"])
    assert result.exit_code == 0
    for verb in ("serve", "send", "receive", "browse", "destinations", "user", "journal", "bench"):
        assert verb in result.stdout


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConnectionFailed("No server answers."), 1, "tocsin: No server answers.\n"),
        (
            FileNotFoundError(2, "No such file or directory", "body.txt"),
            1,
            "tocsin: body.txt: No such file or directory.\n",
        ),
        (KeyboardInterrupt(), 130, ""),
        (ZeroDivisionError("by zero"), 1, "ZeroDivisionError: by zero. TOCSIN_TRACEBACK=1 shows where"),
    ],
)
def test_errors_become_sentences_and_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, words: str
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(main, "app", fail)
    monkeypatch.delenv("TOCSIN_TRACEBACK", raising=False)
    assert main.run([]) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_a_closed_pipe_is_no_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise PipeClosed

    monkeypatch.setattr(main, "app", fail)
    monkeypatch.setattr(main, "abandon_output", lambda: None)
    assert main.run([]) == 0
    assert capsys.readouterr().err == ""


def test_version_comes_at_once() -> None:
    took = []
    for _ in range(3):
        before = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "tocsin.cli.main", "--version"], capture_output=True, text=True)
        took.append(time.monotonic() - before)
        assert done.stdout == f"tocsin {tocsin.__version__}\n"
        assert done.returncode == 0
    # Far above what it takes, so that a busy machine does not fail it; heavy imports would.
    assert min(took) < 1.0


def test_the_package_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tocsin", "--version"], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == (f"tocsin {tocsin.__version__}\n", 0)


def test_nothing_heavy_is_imported_before_a_command_runs() -> None:
    code = (
        "import sys, tocsin.cli.main; "
        "print(*sorted({'asyncio', 'ssl', 'uvloop', 'cryptography', 'rich.table', 'tocsin.node', 'tocsin.client'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_shell_completion_knows_the_verbs(tmp_path: Path) -> None:
    environment = {**os.environ, "_TOCSIN_COMPLETE": "complete_bash", "COMP_WORDS": "tocsin re", "COMP_CWORD": "1"}
    done = subprocess.run(
        [Path(sys.executable).with_name("tocsin")], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.stdout.split() == ["receive"]
