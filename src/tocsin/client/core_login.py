"""The first frames of a connection: HELLO, the SCRAM exchange when a user was given, WELCOME.

Who was given a user and a password lets no server in that has not proved to know them: on the first connection and on
each one after it, a WELCOME without a verified signature is the end. Until then the server gets nothing that it could
use: the token of a connection that was lost is proved and not shown, and no other frame of the server counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tocsin.client.settings import Settings
from tocsin.model.errors import AuthenticationFailed, ProtocolError
from tocsin.wire.frames import VERSION, FrameType, control
from tocsin.wire.resume_proof import resume_proof
from tocsin.wire.scram import ScramClient

BEFORE_WELCOME = (FrameType.CHALLENGE, FrameType.WELCOME, FrameType.FAILURE, FrameType.GOODBYE)
"""What a server may say before it has proved itself."""


@dataclass(slots=True)
class Resume:
    """What proves the right to go on where a lost connection has ended."""

    connection: bytes
    token: bytes = field(repr=False)


class Login:
    """One login. `proof` is work that takes tens of milliseconds: the shell decides where it runs."""

    __slots__ = ("_resume", "_scram", "proof")

    def __init__(self) -> None:
        self._scram: ScramClient | None = None
        self._resume: Resume | None = None
        self.proof: Callable[[], bytes] | None = None

    def hello(self, settings: Settings, resume: Resume | None, nonce: str, binding: bytes | None) -> bytes:
        """`binding` is that of the TLS connection, None in clear."""
        fields: dict[str, Any] = {
            "version": VERSION,
            "product": settings.product,
            "heartbeat": settings.heartbeat,
        }
        if settings.client_id is not None:
            fields["client_id"] = settings.client_id
        if settings.user is not None:
            password = "" if settings.password is None else settings.password.reveal()
            self._scram = ScramClient(settings.user, password, nonce=nonce, binding=binding)
            self._resume = resume
            fields["user"] = settings.user
            fields["sasl"] = self._scram.start()
        elif resume is not None:
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
        fields: dict[str, Any] = {"sasl": answer}
        if self._resume is not None:
            proof = resume_proof(self._resume.token, answer)
            fields["resume"] = {"connection": self._resume.connection, "proof": proof}
        return control(FrameType.RESPONSE, 0, fields)

    def welcome(self, fields: dict[str, Any]) -> None:
        """Checks that the server has proved itself to a client that was given a user."""
        if self._scram is None:
            return
        final = fields.get("sasl")
        if not isinstance(final, bytes):
            raise AuthenticationFailed(
                "The server let this client in without proving that it knows the user, so it may be an impostor. If it "
                "is a server without users, leave the user and the password away."
            )
        self._scram.finish(final)
