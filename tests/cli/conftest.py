"""A real server, and the `tocsin` command as a shell would run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tocsin.cli.bench.server import OwnServer

COMMAND_SECONDS_MAX = 60
_NUMBERS = count(1)


@dataclass(frozen=True)
class Shell:
    """Runs `tocsin` with its streams as pipes."""

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


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    server = OwnServer(tmp_path_factory.mktemp("server"))
    server.start()
    try:
        server.wait_until_listening()
        yield Shell(server.url)
    finally:
        server.stop()


@pytest.fixture
def queue() -> str:
    """A name that no other test uses."""
    return f"queue-{next(_NUMBERS)}"


@pytest.fixture
def topic() -> str:
    return f"topic:topic-{next(_NUMBERS)}"


@pytest.fixture
def body_file(tmp_path: Path) -> Path:
    path = tmp_path / "body"
    path.write_bytes(b"\x00\xffbytes\n")
    return path
