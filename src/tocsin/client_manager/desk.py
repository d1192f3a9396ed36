"""What the parts of a client manager share: who is here, what is awaited, and what is to be sent."""

from __future__ import annotations

from tocsin.client_manager.connection import ConnectionState
from tocsin.client_manager.registry import Registry
from tocsin.client_manager.requests import Awaited
from tocsin.client_manager.session import SessionState
from tocsin.cluster.commands import Command
from tocsin.model.errors import TocsinError
from tocsin.model.values import Bytes
from tocsin.wire.frames import FrameType, Settled, control, write_confirm, write_settled


class Desk:
    __slots__ = ("_requests", "awaited", "closing", "commands", "leaving", "out", "registry", "touched")

    def __init__(self) -> None:
        self.registry = Registry()
        self.awaited: dict[int, Awaited] = {}
        self._requests = 0
        # Sessions with confirmations that wait for the end of this turn, in order.
        self.touched: dict[bytes, None] = {}
        self.out: list[tuple[int, list[Bytes]]] = []
        self.commands: list[Command] = []
        self.closing: list[int] = []
        # Transports whose client has said goodbye: how many answers are to come before they are hung up on, since when.
        self.leaving: dict[int, tuple[int, float]] = {}

    def next_request(self) -> int:
        self._requests += 1
        return self._requests

    def expect(self, awaited: Awaited) -> int:
        """The number of a request to message managers whose answer goes where `awaited` says."""
        self._requests += 1
        self.awaited[self._requests] = awaited
        if awaited.leaving:
            left, since = self.leaving[awaited.leaving]
            self.leaving[awaited.leaving] = (left + 1, since)
        return self._requests

    def let_go(self, transport: int) -> None:
        """One thing less that a client has left behind; after the last it may hear that it is gone."""
        left, since = self.leaving.get(transport, (0, 0.0))
        if left > 1:
            self.leaving[transport] = (left - 1, since)
        elif self.leaving.pop(transport, None) is not None:
            self.closing.append(transport)

    def send(self, state: ConnectionState, parts: list[Bytes], now: float) -> None:
        if parts:
            state.spoke = now
            self.out.append((state.number, parts))

    def send_session(self, session: SessionState, frame: bytes, now: float) -> None:
        state = self.registry.connections.get(session.connection)
        if state is not None:
            self.send(state, [frame], now)

    def fail(self, state: ConnectionState, session: int, request: int, error: TocsinError, now: float) -> None:
        fields = {"id": request, "code": error.code, "text": str(error)}
        self.send(state, [control(FrameType.FAILURE, session, fields)], now)

    def flush(self, now: float) -> None:
        """End of a turn: confirmations that piled up leave, one frame for each producer and consumer."""
        registry = self.registry
        for identity in self.touched:
            session = registry.sessions.get(identity)
            if session is None:
                continue
            state = registry.connections.get(session.connection)
            if state is not None:
                frames: list[Bytes] = []
                for confirm in session.confirms.values():
                    frames.append(write_confirm(session.number, confirm))
                for consumer, settled in session.settled.items():
                    frames.append(write_settled(session.number, Settled(consumer, settled)))
                self.send(state, frames, now)
            session.confirms.clear()
            session.settled.clear()
        self.touched.clear()
