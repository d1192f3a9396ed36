"""Client ids in a cluster: a connection has one when the group that keeps it has granted it (J53)."""

from __future__ import annotations

from tocsin.client_manager.connection import ConnectionState, Phase
from tocsin.client_manager.desk import Desk
from tocsin.client_manager.requests import Awaited
from tocsin.cluster.commands import Administer, Answer, Failed
from tocsin.model.errors import TocsinError


class Claiming:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def claim(self, state: ConnectionState, awaited: Awaited) -> None:
        """Asks for the client id that the connection has here; `awaited.frame` is what the client gets with it."""
        awaited.operation, awaited.number = "client_id.claim", state.number
        state.claiming = True
        self._ask(state, awaited)

    def release(self, state: ConnectionState, leaving: int) -> None:
        self._ask(state, Awaited(state.identity, 0, 0, operation="client_id.release", leaving=leaving))

    def _ask(self, state: ConnectionState, awaited: Awaited) -> None:
        fields = {"client_id": state.client_id, "connection": state.identity, "user": state.principal}
        self._desk.commands.append(Administer(self._desk.expect(awaited), awaited.operation, fields))

    def answered(self, awaited: Awaited, reply: Answer | Failed, now: float) -> None:
        state = self._desk.registry.connections.get(awaited.number)
        if state is None or state.identity != awaited.connection:
            return
        state.claiming = False
        if isinstance(reply, Failed):
            self._refused(state, awaited, reply.error, now)
            return
        if state.phase is Phase.CLAIMING:
            state.phase = Phase.OPEN
        self._desk.send(state, [awaited.frame], now)

    def _refused(self, state: ConnectionState, awaited: Awaited, error: TocsinError, now: float) -> None:
        self._desk.registry.disclaim(state)
        if awaited.request and not state.sessions:
            self._desk.fail(state, awaited.session, awaited.request, error, now)
        else:
            self._desk.end(state, 0, error)
