"""The `tocsin` command as a shell would run it: standard streams that are pipes, or a terminal, and an exit code.

Most commands run in this process, by the same function that the installed script calls: to start an interpreter takes
longer than what they do. Signals, broken pipes and servers need a process of their own; `command` is for those.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tocsin.cli import main

COMMAND_SECONDS_MAX = 60


class Terminal(io.StringIO):
    """Standard output that people look at."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Shell:
    """Runs commands against the server at one URL."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "TOCSIN_URL": self.url, "COLUMNS": "200"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tocsin.cli.main", *arguments]

    def run(self, *arguments: str, feed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        out, complaints = io.BytesIO(), io.BytesIO()
        with ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, self.environment))
            stack.enter_context(patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(feed), "utf-8")))
            piped = stack.enter_context(redirect_stdout(io.TextIOWrapper(out, "utf-8")))
            noted = stack.enter_context(redirect_stderr(io.TextIOWrapper(complaints, "utf-8")))
            code = main.run(arguments)
            piped.flush()
            noted.flush()
            return subprocess.CompletedProcess(arguments, code, out.getvalue(), complaints.getvalue())

    def run_process(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self.environment,
            timeout=COMMAND_SECONDS_MAX,
        )

    def seen(self, *arguments: str, columns: int = 100) -> str:
        """What a command that must succeed shows on a terminal, one without colours."""
        terminal = Terminal()
        environment = self.environment | {"COLUMNS": str(columns), "TERM": "dumb"}
        with patch.dict(os.environ, environment), redirect_stdout(terminal):
            assert main.run(arguments) == 0
        return terminal.getvalue()

    def ok(self, *arguments: str, feed: bytes = b"") -> bytes:
        """Standard output of a command that must succeed and have nothing to complain about."""
        done = self.run(*arguments, feed=feed)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def json(self, *arguments: str, feed: bytes = b"") -> Any:
        return json.loads(self.ok(*arguments, "--json", feed=feed))

    def json_lines(self, *arguments: str) -> list[Any]:
        return [json.loads(line) for line in self.ok(*arguments, "--json").splitlines()]

    def fails(self, code: int, *arguments: str, feed: bytes = b"") -> str:
        """What a command that must end with this code says on standard error."""
        return _complaint(self.run(*arguments, feed=feed), code)

    def process_fails(self, code: int, *arguments: str) -> str:
        return _complaint(self.run_process(*arguments), code)


def _complaint(done: subprocess.CompletedProcess[bytes], code: int) -> str:
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done.stderr.decode()
