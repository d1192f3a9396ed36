"""The worker processes of one run.

A worker runs one role step by step. At the end of each step it reports and waits for the word to go on: the
reports are the barrier before the clock starts, and carry the results. One line of JSON each way:

    worker -> crew    {"report": {...}} or {"error": "a sentence"}
    crew -> worker    {...parameters...} first, then an empty object per step
"""

from __future__ import annotations

import json
import selectors
import subprocess
import time
from types import TracebackType
from typing import Any, Self

from tocsin.cli.bench import worker
from tocsin.cli.bench.process import BenchFailed, end, ending_held, start_module
from tocsin.cli.bench.server import Target

Report = dict[str, Any]

POLL_SECONDS = 0.25
STOP_SECONDS_MAX = 2.0
READ_BYTES = 1 << 20


class Member:
    """One worker, seen from the crew."""

    def __init__(self, role: str, process: subprocess.Popen[bytes]) -> None:
        self.role = role
        self.process = process
        self.reports: list[Report] = []
        self.finished = False
        self._received = bytearray()

    def tell(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise BenchFailed(f"The {self.role} process ended before its work was done.") from None

    def read(self) -> None:
        """Takes what has come; a report that is complete is kept, an error is raised."""
        assert self.process.stdout is not None
        data = self.process.stdout.read1(READ_BYTES)  # type: ignore[attr-defined]
        if not data and self.process.wait() != 0:
            raise BenchFailed(f"The {self.role} process ended with code {self.process.returncode}.")
        self.finished = not data
        self._received += data
        while (at := self._received.find(b"\n")) >= 0:
            message = json.loads(self._received[:at])
            del self._received[: at + 1]
            if "error" in message:
                raise BenchFailed(f"The {self.role} process failed: {message['error']}")
            self.reports.append(message["report"])


class Crew:
    """Starts workers, waits for their reports within one deadline, and leaves none behind."""

    def __init__(self, server: Target, timeout_s: float) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._members: list[Member] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._selector.close()
        for member in self._members:
            end(member.process, STOP_SECONDS_MAX)

    def start(self, role: str, **parameters: Any) -> Member:
        with ending_held():
            process = start_module(worker.__name__, [role], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None)
            member = Member(role, process)
            self._members.append(member)
        self._selector.register(process.stdout, selectors.EVENT_READ, member)  # type: ignore[arg-type]
        member.tell({"url": self._server.url, **parameters})
        return member

    def gather(self, *members: Member) -> list[Report]:
        """The next report of each; an error of any worker, or of the server, ends the run at once."""
        while not all(member.reports for member in members):
            if time.monotonic() > self._deadline:
                waiting = " and ".join(member.role for member in members if not member.reports)
                raise BenchFailed(
                    f"The run took longer than {self._timeout_s:.0f} s (--timeout) and was stopped; "
                    f"{waiting} had not finished."
                )
            self._look(POLL_SECONDS)
            for member in members:
                if member.finished and not member.reports:
                    raise BenchFailed(f"The {member.role} process ended before its work was done.")
        return [member.reports.pop(0) for member in members]

    def watch(self, seconds: float) -> None:
        """Lets the workers work for so long; whoever fails ends the run at once."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._look(min(left, POLL_SECONDS))

    def _look(self, wait_s: float) -> None:
        self._server.check_alive()
        for key, _ in self._selector.select(wait_s):
            key.data.read()
            if key.data.finished:
                self._selector.unregister(key.fileobj)

    def go(self, *members: Member) -> None:
        for member in members:
            member.tell({})

    def step(self, *members: Member) -> list[Report]:
        self.go(*members)
        return self.gather(*members)
