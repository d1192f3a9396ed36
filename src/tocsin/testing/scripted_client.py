"""A client that does just what a test says, frame by frame, and keeps what the server answers.

It has none of a real client's kindness: no automatic acknowledgement, credit, renewal or resend. What it sends goes
through the server at once; what came back is in `frames` and, sorted, in its sessions' producers and consumers.
"""

from __future__ import annotations

from typing import Any, Protocol

from tocsin.testing.scripted_session import ScriptedSession, error_of
from tocsin.wire.frames import Frame, FrameType, control, signal
from tocsin.wire.reader import FrameReader
from tocsin.wire.resume_proof import resume_proof
from tocsin.wire.scram import ScramClient


class Server(Protocol):
    """Where a scripted client's bytes go."""

    def receive(self, connection: int, data: bytes) -> None: ...


class ScriptedClient:
    def __init__(self, server: Server, number: int) -> None:
        self.server = server
        self.number = number
        self.open = True
        self.frames: list[Frame] = []
        self.answered: list[int] = []
        """Requests in the order in which their answers came."""
        self.identity = b""
        self.client_id: str | None = None
        self.welcome: dict[str, Any] = {}
        self.sessions: dict[int, ScriptedSession] = {}
        self._reader = FrameReader()
        self._reader.logged_in()
        self.requests = 0
        """The number of the last request."""
        self._numbers = 0

    # ---- frames

    def send(self, *frames: bytes) -> None:
        self.server.receive(self.number, b"".join(frames))

    def feed(self, data: bytes) -> None:
        """What the server sent to this client."""
        for frame in self._reader.feed(data):
            kept = Frame(frame.type, frame.session, bytes(frame.payload))
            self.frames.append(kept)
            if kept.type in (FrameType.REPLY, FrameType.FAILURE):
                self.answered.append(kept.fields()["id"])
            session = self.sessions.get(frame.session)
            if session is not None:
                session.take(kept)

    def take(self, kind: FrameType) -> list[Frame]:
        """The frames of one type that came since the last call for it."""
        found = [frame for frame in self.frames if frame.type is kind]
        self.frames = [frame for frame in self.frames if frame.type is not kind]
        return found

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # ---- requests

    def hello(
        self, client_id: str | None = None, resume: ScriptedClient | None = None, login: tuple[str, str] | None = None
    ) -> None:
        """`login` is a user and the password."""
        fields: dict[str, Any] = {"version": 1, "product": "test", "heartbeat": 1e9}
        if client_id is not None:
            fields["client_id"] = client_id
        if resume is not None and login is None:
            fields["resume"] = {"connection": resume.identity, "token": resume.welcome["token"]}
        scram = None
        if login is not None:
            scram = ScramClient(*login, nonce=f"scripted-client-{self.number:08}")
            fields["sasl"] = scram.start()
        self.send(control(FrameType.HELLO, 0, fields))
        challenges = self.take(FrameType.CHALLENGE)
        if scram is not None and challenges:
            answer = scram.answer(challenges[0].fields()["sasl"])
            response: dict[str, Any] = {"sasl": answer}
            if resume is not None:
                proof = resume_proof(resume.welcome["token"], answer)
                response["resume"] = {"connection": resume.identity, "proof": proof}
            self.send(control(FrameType.RESPONSE, 0, response))
        failures = self.take(FrameType.FAILURE)
        if failures:
            raise error_of(failures[0].fields())
        self.welcome = self.take(FrameType.WELCOME)[0].fields()
        self.identity = self.welcome["connection"]
        self.client_id = client_id

    def ask(self, operation: str, on: int = 0, **fields: Any) -> int:
        """Sends a request and does not wait; returns its number."""
        self.requests += 1
        self.send(control(FrameType.REQUEST, on, {"id": self.requests, "op": operation, **fields}))
        return self.requests

    def answer(self, request: int) -> dict[str, Any] | None:
        """The reply to a request, None while there is none; raises the error that the server answered with."""
        for frame in self.frames:
            if frame.type in (FrameType.REPLY, FrameType.FAILURE) and frame.fields()["id"] == request:
                self.frames.remove(frame)
                if frame.type is FrameType.FAILURE:
                    raise error_of(frame.fields())
                return frame.fields()
        return None

    def request(self, operation: str, on: int = 0, **fields: Any) -> dict[str, Any]:
        number = self.ask(operation, on, **fields)
        reply = self.answer(number)
        assert reply is not None, f"{operation} was not answered"
        return reply

    def goodbye(self) -> None:
        self.send(control(FrameType.GOODBYE, 0, {}))

    def ping(self) -> None:
        self.send(signal(FrameType.PING))

    def session(self, number: int = 1, former: ScriptedSession | None = None) -> ScriptedSession:
        fields: dict[str, Any] = {"session": number}
        if former is not None:
            fields |= {"producer_id": former.producer_id, "epoch": former.epoch}
        reply = self.request("session.open", **fields)
        session = ScriptedSession(self, number, reply["producer_id"], reply["epoch"], reply["resumed"])
        self.sessions[number] = session
        return session
