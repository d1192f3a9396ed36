"""Who is here: connections by number and by identity, client ids, sessions."""

from __future__ import annotations

from tocsin.client_manager.accounts import Accounts
from tocsin.client_manager.connection import ConnectionState, Phase
from tocsin.client_manager.flow import ConsumerFlow, window_of
from tocsin.client_manager.quotas import Usage
from tocsin.client_manager.session import SessionState
from tocsin.model.errors import IllegalState, InvalidClientId
from tocsin.model.limits import CLIENT_ID_BYTES_MAX


class Registry:
    __slots__ = ("_client_ids", "_usage", "accounts", "connections", "consumers", "known", "producers", "sessions")

    def __init__(self) -> None:
        self.connections: dict[int, ConnectionState] = {}
        # All connections by identity, those whose client is away included.
        self.known: dict[bytes, ConnectionState] = {}
        self.sessions: dict[bytes, SessionState] = {}
        # Open producers of all sessions: they share what may be on the way.
        self.producers = 0
        # Open consumers of all sessions, which share what may be on the way to them.
        self.consumers = 0
        self.accounts = Accounts()
        self._client_ids: dict[str, bytes] = {}
        # What each user has here, or each connection where nobody has to log in.
        self._usage: dict[str | bytes, Usage] = {}

    def admit(self, state: ConnectionState) -> None:
        """A connection that has logged in is one of its user's; ResourceExhausted when these are too many."""
        former = self.known.get(state.identity)
        if former is None:
            key = state.identity if state.principal is None else state.principal
            usage = self._usage.get(key) or Usage(state.principal)
            usage.connections.add()
            self._usage[key] = state.usage = usage
        else:
            state.usage = former.usage
        self.known[state.identity] = state

    def connection_of(self, session: SessionState) -> ConnectionState | None:
        """The connection that a session is on now; None while its client is away."""
        return self.connections.get(session.connection)

    def add_session(self, state: ConnectionState, session: SessionState) -> None:
        state.usage.sessions.add()
        session.usage = state.usage
        state.sessions[session.number] = self.sessions[session.id] = session

    def remove_session(self, state: ConnectionState, session: SessionState) -> None:
        self.producers -= len(session.producers)
        for number in list(session.consumers):
            self.drop_consumer(session, number)
        if self.sessions.pop(session.id, None) is not None:
            session.release()
            session.usage.sessions.remove()
        state.sessions.pop(session.number, None)

    def add_consumer(self, session: SessionState, number: int, messages: int, allowed: int) -> ConsumerFlow:
        """A consumer is about to be opened, or opened again by a client that has come back.

        Raises ResourceExhausted when there are too many.
        """
        former = session.consumers.get(number)
        if former is None:
            session.count_consumer()
            self.consumers += 1
            session.account.consumers += 1
        elif former.transport == session.connection:
            # Were it refused later, the message manager would keep the first one, and nobody would count it.
            raise IllegalState(f"Consumer {number} of the session is open, or is being closed; use another number.")
        flow = session.consumers[number] = ConsumerFlow(messages, allowed, self.window(session), session.connection)
        return flow

    def drop_consumer(self, session: SessionState, number: int) -> None:
        if session.consumers.pop(number, None) is not None:
            session.usage.consumers.remove()
            self.consumers -= 1
            session.account.consumers -= 1

    def window(self, session: SessionState) -> int:
        """How many bytes may be on the way to each consumer of a session."""
        return window_of(session.account.consumers, self.consumers)

    def claim_client_id(self, state: ConnectionState, client_id: object) -> ConnectionState | None:
        """Gives a connection its client id (J53). Returns a holder that is away and has to give way, if any."""
        if not isinstance(client_id, str) or not 0 < len(client_id.encode()) <= CLIENT_ID_BYTES_MAX:
            raise InvalidClientId(f"A client id is a text of 1 to {CLIENT_ID_BYTES_MAX} bytes.")
        holder = self.known.get(self._client_ids.get(client_id, b""))
        if holder is not None and holder.identity == state.identity:
            holder = None
        if holder is not None and holder.principal != state.principal:
            raise InvalidClientId(f"The client id {client_id!r} belongs to another user, whose connection has it.")
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
            state.usage.connections.remove()
            if not state.usage.connections.count:
                self._usage.pop(state.identity if state.principal is None else state.principal, None)
        if state.client_id is not None and self._client_ids.get(state.client_id) == state.identity:
            del self._client_ids[state.client_id]
        state.phase = Phase.HELLO
