"""What the parts of a client manager share: who is here, what is awaited, and what is to be sent."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.client_manager.accounts import Account
from tocsin.client_manager.connection import ConnectionState
from tocsin.client_manager.flow import ConsumerFlow
from tocsin.client_manager.registry import Registry
from tocsin.client_manager.requests import Awaited
from tocsin.client_manager.session import SessionState
from tocsin.cluster.commands import Command
from tocsin.model.errors import TocsinError, text_of
from tocsin.model.faults import Faults
from tocsin.model.traffic_limits import COMMAND_BYTES, FIELDS_FACTOR
from tocsin.model.values import Bytes
from tocsin.wire.frames import Credit, FrameType, Settled, control, write_confirm, write_settled

End = Callable[[ConnectionState, int, TocsinError], None]
"""Ends a connection, with the request that failed and the reason."""


class Desk:
    __slots__ = (
        "_requests",
        "awaited",
        "closing",
        "commands",
        "end",
        "faults",
        "leaving",
        "out",
        "registry",
        "touched",
    )

    def __init__(self, faults: Faults, end: End) -> None:
        self.registry = Registry()
        self.faults = faults
        self.end = end
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

    def expect(self, awaited: Awaited, account: Account | None = None, size: int = 0) -> int:
        """The number of a request to message managers whose answer goes where `awaited` says.

        A client's request of `size` bytes is charged to its account until then.
        """
        self._requests += 1
        self.awaited[self._requests] = awaited
        if account is not None:
            awaited.account, awaited.cost = account, COMMAND_BYTES + FIELDS_FACTOR * size
            account.charge(awaited.cost)
        if awaited.leaving:
            left, since = self.leaving[awaited.leaving]
            self.leaving[awaited.leaving] = (left + 1, since)
        return self._requests

    def answered(self, request: int) -> None:
        """A request is done with, its answer included."""
        awaited = self.awaited.pop(request, None)
        if awaited is not None and awaited.account is not None:
            awaited.account.release(awaited.cost)

    def allow(self, session: SessionState, credit: Credit) -> None:
        """A client allows one of its consumers more; of one that is closed it has not heard yet."""
        flow = session.consumers.get(credit.consumer)
        if flow is not None:
            key, window = (session.id, credit.consumer), self.registry.window(session)
            grant = flow.allow(key, credit.messages, credit.bytes, window)
            if grant is not None:
                self.commands.append(grant)

    def go_on(self, session: SessionState, consumer: int, flow: ConsumerFlow) -> None:
        """A consumer may be sent more, if its client allows that."""
        grant = flow.go_on((session.id, consumer), self.registry.window(session))
        if grant is not None:
            self.commands.append(grant)

    def go_on_all(self, state: ConnectionState) -> None:
        """The same for all consumers of a connection, which has taken most of what it was sent."""
        for session in state.sessions.values():
            for number, flow in session.consumers.items():
                if flow.is_cut:
                    self.go_on(session, number, flow)

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
        fields = {"id": request, "code": error.code, "text": text_of(error)}
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
                try:
                    self.send(state, _confirmations(session), now)
                except Exception as error:
                    self.end(state, 0, self.faults.note("confirming", error))
            session.confirms.clear()
            session.settled.clear()
        self.touched.clear()


def _confirmations(session: SessionState) -> list[Bytes]:
    frames: list[Bytes] = [write_confirm(session.number, confirm) for confirm in session.confirms.values()]
    frames += [write_settled(session.number, Settled(consumer, number)) for consumer, number in session.settled.items()]
    return frames
