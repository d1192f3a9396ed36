"""Who is here: connections by number and by identity, client ids, sessions."""

from __future__ import annotations

from tocsin.client_manager.connection import ConnectionState, Phase
from tocsin.client_manager.session import SessionState
from tocsin.model.errors import InvalidClientId
from tocsin.model.limits import CLIENT_ID_BYTES_MAX


class Registry:
    __slots__ = ("_client_ids", "connections", "known", "producers", "sessions")

    def __init__(self) -> None:
        self.connections: dict[int, ConnectionState] = {}
        # All connections by identity, those whose client is away included.
        self.known: dict[bytes, ConnectionState] = {}
        self.sessions: dict[bytes, SessionState] = {}
        # Open producers of all sessions: they share what may be on the way.
        self.producers = 0
        self._client_ids: dict[str, bytes] = {}

    def connection_of(self, session: SessionState) -> ConnectionState | None:
        """The connection that a session is on now; None while its client is away."""
        return self.connections.get(session.connection)

    def add_session(self, state: ConnectionState, session: SessionState) -> None:
        state.sessions[session.number] = self.sessions[session.id] = session

    def remove_session(self, state: ConnectionState, session: SessionState) -> None:
        self.producers -= len(session.producers)
        state.sessions.pop(session.number, None)
        self.sessions.pop(session.id, None)

    def claim_client_id(self, state: ConnectionState, client_id: object) -> ConnectionState | None:
        """Gives a connection its client id (J53). Returns a holder that is away and has to give way, if any."""
        if not isinstance(client_id, str) or not 0 < len(client_id.encode()) <= CLIENT_ID_BYTES_MAX:
            raise InvalidClientId(f"A client id is a text of 1 to {CLIENT_ID_BYTES_MAX} bytes.")
        holder = self.known.get(self._client_ids.get(client_id, b""))
        if holder is state:
            holder = None
        if holder is not None and holder.phase is not Phase.AWAY:
            raise InvalidClientId(f"The client id {client_id!r} is in use by another connection.")
        self._client_ids[client_id] = state.identity
        state.client_id = client_id
        return holder

    def disclaim(self, state: ConnectionState) -> None:
        """Takes its client id from a connection."""
        if state.client_id is not None and self._client_ids.get(state.client_id) == state.identity:
            del self._client_ids[state.client_id]
        state.client_id = None

    def forget(self, state: ConnectionState) -> None:
        """The connection is over for good."""
        if self.known.get(state.identity) is state:
            del self.known[state.identity]
        if state.client_id is not None and self._client_ids.get(state.client_id) == state.identity:
            del self._client_ids[state.client_id]
        state.phase = Phase.HELLO
