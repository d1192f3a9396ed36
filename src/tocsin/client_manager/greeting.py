"""From the first frame to WELCOME: login, heartbeat, client id, and taking over what a returning client left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tocsin.client_manager.connection import ConnectionState, Phase
from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.registry import Registry
from tocsin.model.errors import AuthenticationFailed, IllegalState, ProtocolError, TocsinError
from tocsin.model.limits import HEARTBEAT_SECONDS_MIN
from tocsin.wire.frames import Frame, FrameType, control


@dataclass(slots=True)
class Greeted:
    """What follows from one frame: the answer, and connections that have to go."""

    frame: bytes
    half_open: ConnectionState | None = None
    """The connection that the client had before; this side had not noticed its end."""
    gone: ConnectionState | None = None
    """One that is away and had the client id that this one claims."""
    claims: bool = False
    """It has got a client id that it did not have before."""
    known: bool = False
    """What the client had before was here."""


@dataclass(slots=True)
class Greeter:
    login: Login
    identities: Identities
    registry: Registry
    product: str
    heartbeat: float
    message_bytes_max: int
    block_bytes_max: int
    draining: bool = field(default=False)

    def greet(self, state: ConnectionState, frame: Frame) -> Greeted:
        if state.phase is Phase.HELLO and frame.type is FrameType.HELLO:
            return self._hello(state, frame.fields())
        if state.phase is Phase.LOGIN and frame.type is FrameType.RESPONSE and state.scram is not None:
            answer = frame.fields().get("sasl")
            if not isinstance(answer, bytes):
                raise ProtocolError("A login response has no proof.")
            final = state.scram.finish(answer)
            return self._welcome(state, state.scram.user, final)
        raise ProtocolError(f"A {frame.type.name} frame is not expected before the login is complete.")

    def _hello(self, state: ConnectionState, fields: dict[str, Any]) -> Greeted:
        if self.draining:
            raise IllegalState("The server is stopping; try another one, or this one later.")
        state.greeting = fields
        if not self.login.required:
            return self._welcome(state, None, None)
        first = fields.get("sasl")
        if not isinstance(first, bytes):
            raise AuthenticationFailed("This server asks for a login; give a user name and a password.")
        state.scram = self.login.scram()
        state.phase = Phase.LOGIN
        return Greeted(control(FrameType.CHALLENGE, 0, {"sasl": state.scram.challenge(first)}))

    def _welcome(self, state: ConnectionState, user: str | None, final: bytes | None) -> Greeted:
        greeting = state.greeting
        state.principal = user
        former = self._resume(state, greeting.get("resume"))
        if not state.identity:
            state.identity = self.identities.next_connection()
        self.registry.known[state.identity] = state
        state.phase = Phase.OPEN
        wish = greeting.get("heartbeat")
        heartbeat = float(wish) if isinstance(wish, (int, float)) else self.heartbeat
        state.heartbeat = min(max(HEARTBEAT_SECONDS_MIN, heartbeat), self.heartbeat)
        former_id = state.client_id
        gone = self._take_client_id(state, greeting.get("client_id"))
        fields: dict[str, Any] = {
            "connection": state.identity, "token": self.login.token(state.identity, user),
            "heartbeat": state.heartbeat, "max_message_bytes": self.message_bytes_max,
            "max_block_bytes": self.block_bytes_max, "server": self.product,
            "login": user is not None, "resumed": former is not None,
        }  # fmt: skip
        if final is not None:
            fields["sasl"] = final
        state.reader.logged_in()
        half_open = former if former is not None and former.phase in (Phase.OPEN, Phase.CLAIMING) else None
        claims = state.client_id not in (None, former_id)
        return Greeted(control(FrameType.WELCOME, 0, fields), half_open, gone, claims, former is not None)

    def _take_client_id(self, state: ConnectionState, client_id: object) -> ConnectionState | None:
        if client_id is None or state.client_id is not None:
            return None
        try:
            return self.registry.claim_client_id(state, client_id)
        except TocsinError:
            self.registry.forget(state)
            raise

    def _resume(self, state: ConnectionState, ticket: object) -> ConnectionState | None:
        """Takes over what the client left, when it proves that it is the same client."""
        if not isinstance(ticket, dict):
            return None
        identity: Any = ticket.get("connection")
        if not self.login.proves(identity, state.principal, ticket.get("token")):
            return None
        former = self.registry.known.get(identity)
        state.identity = identity
        state.proved = True
        if former is None:
            return None  # The server restarted: the sessions are opened anew under their old ids.
        state.sessions = former.sessions
        if former.phase is not Phase.CLAIMING:
            state.client_id = former.client_id
        return former
