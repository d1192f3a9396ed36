"""From the first frame to WELCOME: login, heartbeat, client id, and taking over what a returning client left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tocsin.client_manager.backoff import Backoff
from tocsin.client_manager.connection import ConnectionState, Phase
from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.registry import Registry
from tocsin.model.errors import AuthenticationFailed, IllegalState, ProtocolError, TocsinError
from tocsin.model.limits import HEARTBEAT_SECONDS_MIN
from tocsin.model.peer_place import place_of
from tocsin.wire.frames import Frame, FrameType, control
from tocsin.wire.scram import ScramServer


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
    backoff: Backoff = field(default_factory=Backoff)
    wall_ahead: float | None = None
    """By how many seconds the time of day is ahead of the clock of `now`; clients are told the time."""

    def greet(self, state: ConnectionState, frame: Frame) -> Greeted:
        if state.phase is Phase.HELLO and frame.type is FrameType.HELLO:
            return self._hello(state, frame.fields())
        if state.phase is Phase.LOGIN and frame.type is FrameType.RESPONSE and state.scram is not None:
            fields = frame.fields()
            answer = fields.get("sasl")
            if not isinstance(answer, bytes):
                raise ProtocolError("A login response has no proof.")
            final = self._check_proof(state, state.scram, answer)
            state.principal = state.scram.user
            state.standing = self.login.standing(state.scram.credentials)
            if state.standing != self.login.standing_of(state.principal):
                raise AuthenticationFailed(f"The user {state.principal!r} was removed, or got other keys, meanwhile.")
            return self._welcome(state, self._former(state, fields.get("resume"), answer), final)
        raise ProtocolError(f"A {frame.type.name} frame is not expected before the login is complete.")

    def _check_proof(self, state: ConnectionState, scram: ScramServer, answer: bytes) -> bytes:
        """Here and not with HELLO: many connections could have said that before the first one fails."""
        place, user, now = place_of(state.peer), scram.claimed, state.heard
        self.backoff.check(user, place, now)
        try:
            final = scram.finish(answer)
        except AuthenticationFailed:
            self.backoff.failed(user, place, now)
            raise
        self.backoff.succeeded(user, place)
        return final

    def _hello(self, state: ConnectionState, fields: dict[str, Any]) -> Greeted:
        if self.draining:
            raise IllegalState("The server is stopping; try another one, or this one later.")
        state.greeting = fields
        if not self.login.required:
            return self._welcome(state, self._former(state, fields.get("resume"), None), None)
        first = fields.get("sasl")
        if not isinstance(first, bytes):
            raise AuthenticationFailed("This server asks for a login; give a user name and a password.")
        state.scram = self.login.scram(state.over_tls)
        state.phase = Phase.LOGIN
        return Greeted(control(FrameType.CHALLENGE, 0, {"sasl": state.scram.challenge(first)}))

    def _welcome(self, state: ConnectionState, former: ConnectionState | None, final: bytes | None) -> Greeted:
        greeting, user = state.greeting, state.principal
        if former is None:
            self.registry.admit(state)
        elif former.client_id is not None:
            state.client_id = former.client_id
        # One that the group which keeps it has not granted yet is asked for again.
        claims = former is not None and former.claiming
        gone = None
        if state.client_id is None and greeting.get("client_id") is not None:
            gone = self._claim(state, greeting["client_id"])
            claims = True
        if former is not None:
            self._take_over(state, former)
        half_open = former if former is not None and former.phase in (Phase.OPEN, Phase.CLAIMING) else None
        state.phase = Phase.OPEN
        wish = greeting.get("heartbeat")
        heartbeat = float(wish) if isinstance(wish, (int, float)) else self.heartbeat
        state.heartbeat = min(max(HEARTBEAT_SECONDS_MIN, heartbeat), self.heartbeat)
        fields: dict[str, Any] = {
            "connection": state.identity, "token": self.login.token(state.identity, user),
            "heartbeat": state.heartbeat, "max_message_bytes": self.message_bytes_max,
            "max_block_bytes": self.block_bytes_max, "server": self.product,
            "login": user is not None, "resumed": former is not None,
        }  # fmt: skip
        if self.wall_ahead is not None:
            fields["time_ms"] = int((state.heard + self.wall_ahead) * 1000)
        if final is not None:
            fields["sasl"] = final
        state.reader.logged_in()
        return Greeted(control(FrameType.WELCOME, 0, fields), half_open, gone, claims, former is not None)

    def _claim(self, state: ConnectionState, client_id: object) -> ConnectionState | None:
        try:
            return self.registry.claim_client_id(state, client_id)
        except TocsinError:
            self.registry.forget(state)
            raise

    def _take_over(self, state: ConnectionState, former: ConnectionState) -> None:
        """When nothing can be refused any more: until then all of it is the former one's."""
        self.registry.admit(state)
        state.sessions, state.temporaries = former.sessions, former.temporaries
        state.account.moved(0)
        state.account = former.account
        state.account.moved(state.number)

    def _former(self, state: ConnectionState, ticket: object, client_final: bytes | None) -> ConnectionState | None:
        """Gives a connection its identity: a new one, or its former one when it proves that it is the same client.

        Returns what it has left here, if anything. After a restart of the server its sessions are opened anew under
        their old ids.

        Whoever logs in does so with the login's last message; who does not shows the token itself.
        """
        if isinstance(ticket, dict):
            identity: Any = ticket.get("connection")
            shown = ticket.get("token" if client_final is None else "proof")
            if self.login.proves(identity, state.principal, shown, client_final):
                state.identity = identity
                state.proved = True
                return self.registry.known.get(identity)
        state.identity = self.identities.next_connection()
        return None
