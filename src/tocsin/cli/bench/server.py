"""The server under test: `tocsin serve` on a free port, in a directory that goes away afterwards."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tocsin.cli.bench.process import (
    BenchFailed,
    cpu_seconds,
    end,
    ending_held,
    on_memory_disk,
    resident_mib,
    start_module,
)
from tocsin.cli.output import note
from tocsin.runtime.local import SOCKET_NAME, local_url

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 10.0
HOST = "127.0.0.1"


class Target(Protocol):
    """A server to measure; what cannot be seen of a foreign one is None."""

    url: str
    folder: Path

    def check_alive(self) -> None: ...
    def cpu_s(self) -> float | None: ...
    def cpu_by_process(self) -> dict[str, float]: ...
    def rss_mib(self) -> float | None: ...
    def peak_mib(self) -> float | None: ...


class ForeignServer:
    """A server that somebody else runs, perhaps elsewhere."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.folder = Path()

    def check_alive(self) -> None:
        return

    def cpu_s(self) -> float | None:
        return None

    def cpu_by_process(self) -> dict[str, float]:
        return {}

    def rss_mib(self) -> float | None:
        return None

    def peak_mib(self) -> float | None:
        return None


class OwnServer:
    """A child process that serves `folder`; it can be killed and started again on the same port. With `local` its URL
    is that of its local socket.
    """

    def __init__(self, folder: Path, *options: str, local: bool = False) -> None:
        self.folder = folder
        self._options = options
        self.port = _free_port()
        self.url = local_url(folder / "data" / SOCKET_NAME) if local else f"tocsin://{HOST}:{self.port}"
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        place = ("--host", HOST, "--port", str(self.port), "--data-dir", str(self.folder / "data"))
        arguments = ["serve", *place, *self._options]
        with open(self._log, "ab") as log, ending_held():
            self._process = start_module("tocsin.cli.main", arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_until_listening(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not is_listening(self.port):
            self.check_alive()
            if time.monotonic() > deadline:
                raise BenchFailed(f"The server did not listen within {START_SECONDS_MAX:.0f} s.{self._last_words()}")
            time.sleep(0.01)

    def check_alive(self) -> None:
        code = self._child.poll()
        if code is not None:
            raise BenchFailed(f"The server ended with code {code}.{self._last_words()}")

    def kill(self) -> None:
        """As `kill -9` does: nothing is said, nothing is saved."""
        self._child.kill()
        self._child.wait()

    def stop(self) -> None:
        if self._process is not None:
            end(self._process, STOP_SECONDS_MAX)

    def cpu_s(self) -> float | None:
        return cpu_seconds(self._child.pid)

    def cpu_by_process(self) -> dict[str, float]:
        return {"server": cpu_seconds(self._child.pid)}

    def rss_mib(self) -> float | None:
        return resident_mib(self._child.pid)

    def peak_mib(self) -> float | None:
        return resident_mib(self._child.pid, peak=True)

    @property
    def _child(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "start() comes first"
        return self._process

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return " It said last: " + " / ".join(lines[-5:]) if lines else ""


@contextmanager
def own_server(*, local: bool = False) -> Iterator[OwnServer]:
    """Under the working directory, because /tmp is often memory and a sync there costs nothing."""
    with tempfile.TemporaryDirectory(prefix=".tocsin-bench-", dir=".") as name:
        folder = Path(name)
        if on_memory_disk(folder):
            note("The working directory is in memory: what a sync costs on a disk is not measured here.")
        server = OwnServer(folder, local=local)
        try:
            server.start()
            server.wait_until_listening()
            yield server
        finally:
            server.stop()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
