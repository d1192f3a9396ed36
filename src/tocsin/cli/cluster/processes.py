"""Nodes as processes that outlive the command that started them; a small file in the node's folder says which it is.

The file holds the process number and when that process began, as the kernel counts it: a number that the system has
given to somebody else meanwhile is never taken for the node, and never signalled.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

_PID_FILE = "pid"
_LOG_FILE = "log"
_POLL_SECONDS = 0.02
_LAST_WORDS_BYTES = 4096


class NodeProcess:
    """The process of one node, which may run or not."""

    def __init__(self, folder: Path) -> None:
        self._pid_file = folder / _PID_FILE
        self.log = folder / _LOG_FILE

    def start(self, arguments: Sequence[str]) -> int:
        """`tocsin arguments` in a session of its own: Ctrl-C on our terminal is not meant for it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "tocsin.cli.main", *arguments],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE),
        )
        temporary = self._pid_file.with_suffix(".tmp")
        temporary.write_text(json.dumps({"pid": pid, "began": began(pid)}))
        temporary.replace(self._pid_file)
        return pid

    def pid(self) -> int | None:
        """None when it does not run."""
        try:
            noted = json.loads(self._pid_file.read_text())
            pid, then = int(noted["pid"]), noted["began"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with suppress(ChildProcessError):
            # A child of ours that has ended is there until somebody asks.
            os.waitpid(pid, os.WNOHANG)
        now = began(pid)
        return pid if now is not None and now == then else None

    def signal(self, number: signal.Signals) -> bool:
        """Whether there was a process to signal."""
        pid = self.pid()
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait_until_gone(self, patience_s: float) -> bool:
        return until(lambda: self.pid() is None, patience_s)

    def last_words(self) -> str:
        """The last line of the log: why it ended, where it ended by itself."""
        try:
            with open(self.log, "rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - _LAST_WORDS_BYTES))
                lines = log.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return lines[-1] if lines else ""


def until(condition: Callable[[], bool], patience_s: float) -> bool:
    """Whether the condition came to hold in this time."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def began(pid: int) -> str | None:
    """When a live process began, in kernel ticks; None when there is none, or a dead one that was not buried."""
    try:
        # The second field is the program's name in parentheses and may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
