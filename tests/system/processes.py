"""Real servers for tests: `tocsin serve` as a process that a test can kill, stop, hold still and start again."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import tocsin

HOST = "127.0.0.1"
PATIENCE = 20.0
"""Seconds for what must happen; only a failing test ever waits that long."""

# Below the range from which the system takes ports for outgoing connections: while a server is down nobody gets its
# port, and a client that dials it can't meet itself.
_PORTS = range(12_000, 32_000)
# Small files are made quickly, and even little load meets a change of segments.
_SMALL = {"segment_bytes": 4 * 1024 * 1024, "max_message_bytes": 1024 * 1024}
_COMMAND = (sys.executable, "-m", "tocsin.cli.main")

Settings = Mapping[str, object]


class ServerProcess:
    """Serves `folder`/data on a port of its own, which it keeps over restarts."""

    def __init__(self, folder: Path, **settings: object) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        place = {"host": HOST, "port": self.port, "data_dir": "data"}
        self.config = write_config(folder, {**place, **_SMALL, **settings})
        self._scheme = "tocsins" if "tls_cert" in settings else "tocsin"
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.before: Callable[[], None] | None = None
        """Is called in the new process, before it is a server."""

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self.address}"

    def start(self) -> Self:
        """Returns when the server takes connections."""
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [*_COMMAND, "serve", "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=self.before,
            )
        until(self._listens, "the server listens")
        return self

    def _listens(self) -> bool:
        code = self._child.poll()
        assert code is None, f"the server ended with code {code}: {self.log()}"
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def kill(self) -> None:
        """SIGKILL: nothing gets a chance to tidy up."""
        self._child.kill()
        self._child.wait(PATIENCE)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Asks the server to stop and returns its exit code."""
        self._child.send_signal(number)
        return self._child.wait(PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    @property
    def number(self) -> int:
        """Of the process."""
        return self._child.pid

    def wait(self) -> int:
        """The exit code of a server that ends by itself."""
        return self._child.wait(PATIENCE)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stored(self, queue: str) -> int:
        """How many messages are in a queue, those in flight included."""
        with tocsin.connect(self.url) as connection:
            return int(connection.show_destination(f"queue:{queue}")["messages"])

    def stored_after_restart(self, queue: str) -> int:
        """The same, asked of a server that is started for the question and stopped again."""
        self.start()
        found = self.stored(queue)
        assert self.stop() == 0
        return found

    def log(self) -> str:
        """Everything that it has said so far, over all restarts."""
        return self._log.read_text(errors="replace")

    def check_log(self) -> None:
        """A server says what is wrong in a sentence; a stack trace is a fault of its own."""
        said = self.log()
        assert "Traceback" not in said and "should not happen" not in said and "Unhandled" not in said, said

    @property
    def _child(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "start() comes first"
        return self._process

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            # A server that is held still does not die of SIGKILL any less.
            self.kill()


def write_config(folder: Path, settings: Settings, name: str = "tocsin.toml") -> Path:
    """A configuration file; TOML writes texts and numbers as JSON does."""
    path = folder / name
    lines = [f"{key} = {json.dumps(str(v) if isinstance(v, Path) else v)}\n" for key, v in settings.items()]
    path.write_text("".join(lines))
    return path


def run_command(*arguments: str, feed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """`tocsin` with these arguments, to its end."""
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(
        [*_COMMAND, *arguments], input=feed, capture_output=True, timeout=2 * PATIENCE, env=environment
    )


def refusal(*arguments: str) -> str:
    """What a command says that must end with exit code 1 and one sentence."""
    done = run_command(*arguments)
    said = done.stderr.decode()
    assert done.returncode == 1, f"code {done.returncode}: {said}{done.stdout.decode()}"
    assert "Traceback" not in said and "should not happen" not in said, said
    last = said.splitlines()[-1]
    assert last.startswith("tocsin: ") and last.endswith("."), said
    return last


def free_port() -> int:
    for _ in range(1_000):
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


def until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Returns when the condition holds; it must come to hold."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, f"waited {patience:g} s in vain until {what}"
        time.sleep(0.005)
