"""Questions to the server: those that are not answered yet, and those that wait for a connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocsin.client.pending import Pending
from tocsin.model.errors import TocsinError
from tocsin.model.values import Bytes
from tocsin.wire.frames import FrameType, control

Fields = dict[str, Any]
Handler = Callable[[Fields, TocsinError | None], None]


@dataclass(slots=True)
class Request:
    session: int
    op: str
    fields: Fields
    handler: Handler
    opens: bool = False
    """A session, a lane or a consumer: these open themselves anew after a reconnect. Others are asked again."""
    pending: Pending | None = None
    """What waits for the answer, if anything does."""
    withdrawn: bool = False


class Requests:
    """Writes to `output`, which stays the same list."""

    __slots__ = ("_last", "_output", "_unanswered", "_waiting", "opening")

    def __init__(self, output: list[Bytes]) -> None:
        self._output = output
        self._last = 0
        self._unanswered: dict[int, Request] = {}
        self._waiting: deque[Request] = deque()
        self.opening = 0
        """How many that open something are not answered."""

    def add(self, request: Request, *, at_once: bool) -> None:
        """Puts it now, or when there is a connection again."""
        if at_once:
            self.put(request)
        else:
            self._waiting.append(request)

    def put(self, request: Request) -> None:
        self._last += 1
        self._unanswered[self._last] = request
        self.opening += request.opens
        fields = {"id": self._last, "op": request.op, **request.fields}
        self._output.append(control(FrameType.REQUEST, request.session, fields))

    def put_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            self.put(request)

    def operation(self, number: int) -> str | None:
        """What a request that is not answered asks for."""
        request = self._unanswered.get(number)
        return None if request is None else request.op

    def answer(self, number: int, reply: Fields, error: TocsinError | None) -> bool:
        """Hands an answer on; True when it was the last one to a request that opens something."""
        request = self._unanswered.pop(number, None)
        if request is None:
            return False
        request.handler(reply, error)
        if not request.opens:
            return False
        self.opening -= 1
        return self.opening == 0

    def withdraw(self, pending: Pending) -> None:
        """Nobody waits for the answer any more: what was not sent yet never is, and nothing is asked again."""
        self._waiting = deque(request for request in self._waiting if request.pending is not pending)
        for request in self._unanswered.values():
            if request.pending is pending:
                request.withdrawn = True

    def lost(self) -> None:
        """The connection is gone: what opens nothing waits for another one."""
        self.opening = 0
        asked = self._unanswered.values()
        self._waiting.extend(request for request in asked if not request.opens and not request.withdrawn)
        self._unanswered.clear()

    def fail(self, error: TocsinError) -> None:
        """There will be no connection."""
        requests = [*self._unanswered.values(), *self._waiting]
        self._unanswered.clear()
        self._waiting.clear()
        for request in requests:
            request.handler({}, error)
