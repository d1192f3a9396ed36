"""Servers for tests: ready to use, and in a process of their own that a test can kill like a power failure would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import tocsin
from tocsin import errors

_PROGRAM = """
import sys
import tocsin

with tocsin.Server(sys.argv[1]) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def open_journal(server: tocsin.Server, user: str | None = None, password: str | None = None) -> None:
    """The first message opens the journal's first file, which no test is to be blamed for."""
    with tocsin.connect(server.url, user=user, password=password) as connection, connection.session() as session:
        session.producer(session.queue("first")).send("text")


class ServerProcess:
    """Runs `tocsin.Server` on the data directory until killed, or stopped by closing its standard input."""

    def __init__(self, data_dir: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url.startswith("tocsin://"), f"the server printed {self.url!r} instead of its address"

    def kill(self) -> None:
        """SIGKILL: nothing gets a chance to tidy up."""
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """A clean stop."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._end()

    def _end(self) -> None:
        self._process.wait(20)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()


@contextmanager
def restarted(data_dir: Path, client_id: str | None = None) -> Iterator[tocsin.Session]:
    """A new server on an old data directory, and a session with it."""
    with (
        ServerProcess(data_dir) as server,
        tocsin.connect(server.url, client_id=client_id) as connection,
        connection.session() as session,
    ):
        yield session


def abandon(connection: tocsin.Connection) -> None:
    """Closes a connection whose server is gone for good, which may say so once more."""
    with suppress(errors.ConnectionFailed):
        connection.close()
