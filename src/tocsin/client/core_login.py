"""The first frames of a connection: HELLO, the SCRAM exchange when the server asks for it, WELCOME."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocsin.client.settings import Settings
from tocsin.model.errors import AuthenticationFailed, ProtocolError
from tocsin.wire.frames import VERSION, FrameType, control
from tocsin.wire.scram import ScramClient


@dataclass(slots=True)
class Resume:
    """What proves the right to go on where a lost connection has ended."""

    connection: bytes
    token: bytes


class Login:
    """One login. `proof` is work that takes tens of milliseconds: the shell decides where it runs."""

    __slots__ = ("_scram", "proof")

    def __init__(self) -> None:
        self._scram: ScramClient | None = None
        self.proof: Callable[[], bytes] | None = None

    def hello(self, settings: Settings, resume: Resume | None, nonce: str) -> bytes:
        fields: dict[str, Any] = {
            "version": VERSION,
            "product": settings.product,
            "heartbeat": settings.heartbeat,
        }
        if settings.client_id is not None:
            fields["client_id"] = settings.client_id
        if settings.user is not None:
            self._scram = ScramClient(settings.user, settings.password or "", nonce=nonce)
            fields["user"] = settings.user
            fields["sasl"] = self._scram.start()
        if resume is not None:
            fields["resume"] = {"connection": resume.connection, "token": resume.token}
        return control(FrameType.HELLO, 0, fields)

    def challenge(self, fields: dict[str, Any]) -> None:
        """Leaves the answer to be worked out in `proof`."""
        scram, server_first = self._scram, fields.get("sasl")
        if scram is None or not isinstance(server_first, bytes):
            raise ProtocolError("The server asks for a login that this client has not begun.")
        self.proof = lambda: scram.answer(server_first)

    def response(self, answer: bytes) -> bytes:
        self.proof = None
        return control(FrameType.RESPONSE, 0, {"sasl": answer})

    def welcome(self, fields: dict[str, Any]) -> None:
        """Checks that the server has proved itself, when it asked for a login."""
        final = fields.get("sasl")
        if final is not None and self._scram is not None:
            self._scram.finish(final)
        elif self._scram is not None and fields.get("login"):
            raise AuthenticationFailed("The server accepted the login without proving that it knows the user.")
