"""Connections between clients and servers in virtual time: bytes arrive whole and in order, or the line breaks.

Fault model. A line that is cut holds back what is said on it, as TCP does while it sends again and again; mended, it
brings everything. One that breaks off is over for the client at once; what the client had said last, and that it is
gone, the server hears later. A server process that dies breaks its lines at once; a machine that loses its power says
nothing, and the client finds out by the silence, or when it speaks to the machine's next life.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from tocsin.model.errors import ConnectionFailed, TocsinError
from tocsin.testing.clusters.timeline import Being, Timeline

_REFUSED_SECONDS = 0.001
_TIMED_OUT_SECONDS = 2.0


class Caller(Protocol):
    """The client's end."""

    number: int

    def answered(self, line: Line) -> None: ...

    def unanswered(self, error: TocsinError) -> None: ...

    def heard(self, line: Line, data: bytes, said_at: float) -> None: ...

    def hung_up(self, line: Line, error: TocsinError) -> None: ...


class Callee(Protocol):
    """The server's end."""

    up: bool
    life: int

    def connected(self, connection: int, peer: str) -> None: ...

    def received(self, connection: int, data: bytes) -> None: ...

    def disconnected(self, connection: int) -> None: ...


class Line:
    __slots__ = (
        "callee", "caller", "held", "host", "life", "number", "open", "to_callee", "to_callee_at", "to_caller",
        "to_caller_at",
    )  # fmt: skip

    def __init__(self, number: int, caller: Caller, callee: Callee, host: str) -> None:
        self.number, self.caller, self.callee, self.host = number, caller, callee, host
        self.life = callee.life
        self.open = True
        self.held: list[tuple[bool, bytes, float]] = []
        """(towards the server, bytes, when they were said), while the line is cut."""
        self.to_callee: deque[bytes] = deque()
        self.to_caller: deque[tuple[bytes, float]] = deque()
        self.to_callee_at = self.to_caller_at = 0.0


class Exchange:
    """All lines of a simulation."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._hosts: dict[str, Callee] = {}
        self._lines: dict[int, Line] = {}
        self._numbers = 0
        self._cuts: set[tuple[int, str]] = set()
        self.delay = 0.001
        self.connections = 0

    def listen(self, host: str, callee: Callee) -> None:
        self._hosts[host] = callee

    # ---- the client's end

    def dial(self, caller: Caller, host: str) -> None:
        callee = self._hosts[host]
        assert isinstance(caller, Being)
        if (caller.number, host) in self._cuts:
            error = ConnectionFailed(f"{host} does not answer.")
            self._timeline.after(_TIMED_OUT_SECONDS, caller, caller.unanswered, error)
        else:
            self._timeline.after(self._draw(), caller, self._arrive, caller, callee, host)

    def _arrive(self, caller: Caller, callee: Callee, host: str) -> None:
        assert isinstance(caller, Being)
        if not callee.up:
            error = ConnectionFailed(f"{host} refuses the connection.")
            self._timeline.after(_REFUSED_SECONDS, caller, caller.unanswered, error)
            return
        self._numbers += 1
        self.connections += 1
        line = self._lines[self._numbers] = Line(self._numbers, caller, callee, host)
        callee.connected(line.number, f"client {caller.number}")
        caller.answered(line)

    def say(self, line: Line, data: bytes) -> None:
        """From the client."""
        if not line.open:
            return
        if line.callee.life != line.life:
            # The machine is back and knows nothing of this line; while it is away nobody answers.
            if line.callee.up:
                self._timeline.after(self._draw(), None, self._tell_broken, line)
            return
        if (line.caller.number, line.host) in self._cuts:
            line.held.append((True, data, self._timeline.time))
            return
        self._timeline.note(data)
        line.to_callee_at = max(line.to_callee_at, self._timeline.time + self._draw())
        line.to_callee.append(data)
        self._timeline.at(line.to_callee_at, None, self._bring_to_callee, line)

    def _bring_to_callee(self, line: Line) -> None:
        """The next of what was said: a pause may be prolonged, and what waits for its end keeps its order."""
        callee = line.callee
        if callee.life != line.life:
            return
        assert isinstance(callee, Being)
        if callee.paused_until > self._timeline.time:
            self._timeline.at(callee.paused_until, None, self._bring_to_callee, line)
            return
        callee.received(line.number, line.to_callee.popleft())

    def hang_up(self, line: Line) -> None:
        """The client closes, or its process is gone: the server hears it, unless the line is cut."""
        if self._lines.pop(line.number, None) is not None:
            line.open = False
            if (line.caller.number, line.host) not in self._cuts:
                line.to_callee_at = max(line.to_callee_at, self._timeline.time + self._draw())
                self._timeline.at(line.to_callee_at, None, self._tell_callee, line)

    def _tell_callee(self, line: Line) -> None:
        if line.callee.life == line.life:
            line.callee.disconnected(line.number)

    # ---- the server's end

    def reply(self, connection: int, data: bytes) -> None:
        line = self._lines.get(connection)
        if line is not None:
            self._reply(line, data, self._timeline.time)

    def _reply(self, line: Line, data: bytes, said_at: float) -> None:
        if (line.caller.number, line.host) in self._cuts:
            line.held.append((False, data, said_at))
            return
        self._timeline.note(data)
        line.to_caller_at = max(line.to_caller_at, self._timeline.time + self._draw())
        line.to_caller.append((data, said_at))
        self._timeline.at(line.to_caller_at, None, self._bring_to_caller, line)

    def _bring_to_caller(self, line: Line) -> None:
        caller = line.caller
        assert isinstance(caller, Being)
        if not line.open or not caller.up:
            return
        if caller.paused_until > self._timeline.time:
            self._timeline.at(caller.paused_until, None, self._bring_to_caller, line)
            return
        caller.heard(line, *line.to_caller.popleft())

    def close(self, connection: int) -> None:
        """The server closes; what it said before still arrives."""
        line = self._lines.get(connection)
        if line is not None:
            at = max(line.to_caller_at, self._timeline.time + self._draw())
            self._timeline.at(at, None, self._closed, line)

    def _closed(self, line: Line) -> None:
        """Each end hears that the line is gone, as of a socket."""
        self._tell_broken(line)
        self._tell_callee(line)

    def _tell_broken(self, line: Line) -> None:
        caller = line.caller
        assert isinstance(caller, Being)
        if self._lines.pop(line.number, None) is not None and caller.up:
            line.open = False
            caller.hung_up(line, ConnectionFailed("The server closed the connection."))

    # ---- faults

    def died(self, callee: Callee, *, silently: bool) -> None:
        """A server is gone. `silently`: with its machine, so nobody tells the clients."""
        for line in list(self._lines.values()):
            if line.callee is callee and not silently:
                self._timeline.after(self._draw(), None, self._tell_broken, line)

    def cut(self, pairs: Iterable[tuple[int, str]]) -> None:
        self._cuts |= set(pairs)

    def mend(self) -> None:
        self._cuts.clear()
        for line in list(self._lines.values()):
            held, line.held = line.held, []
            for to_callee, data, said_at in held:
                if to_callee:
                    self.say(line, data)
                else:
                    self._reply(line, data, said_at)

    def break_off(self, line: Line, seconds: float) -> None:
        """The client loses the line; what it had said, and that it is gone, reaches the server so much later."""
        said = [data for to_callee, data, _ in line.held if to_callee]
        if self._lines.pop(line.number, None) is None:
            return
        line.open = False
        line.to_callee_at = max(line.to_callee_at, self._timeline.time + seconds)
        for data in said:
            line.to_callee.append(data)
            self._timeline.at(line.to_callee_at, None, self._bring_to_callee, line)
        self._timeline.at(line.to_callee_at, None, self._tell_callee, line)
        line.caller.hung_up(line, ConnectionFailed("The line broke off."))

    def lines_of(self, caller: Caller) -> list[Line]:
        return [line for line in self._lines.values() if line.caller is caller]

    def _draw(self) -> float:
        return self.delay * (0.5 + self._timeline.random.random())
