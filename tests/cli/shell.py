"""The `tocsin` command as a shell would run it: a process, with its streams as pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

COMMAND_SECONDS_MAX = 60


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
        return subprocess.run(
            self.command(*arguments),
            input=feed,
            capture_output=True,
            env=self.environment,
            timeout=COMMAND_SECONDS_MAX,
        )

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
        done = self.run(*arguments, feed=feed)
        assert done.returncode == code, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        return done.stderr.decode()
