"""One client connection as the client manager knows it."""

from __future__ import annotations

from enum import Enum

from tocsin.client_manager.session import SessionState
from tocsin.model.limits import HEARTBEAT_SECONDS
from tocsin.wire.reader import FrameReader
from tocsin.wire.scram import ScramServer


class Phase(Enum):
    """What the connection waits for."""

    HELLO = "the client's first frame"
    LOGIN = "the client's proof"
    CLAIMING = "the cluster's word on its client id"
    OPEN = "anything"
    AWAY = "the client to come back"


class ConnectionState:
    """`number` is the transport's; `identity` is the one that survives a reconnect."""

    __slots__ = (
        "client_id",
        "greeting",
        "heard",
        "heartbeat",
        "host",
        "identity",
        "number",
        "opened",
        "peer",
        "phase",
        "principal",
        "proved",
        "reader",
        "scram",
        "sessions",
        "spoke",
        "temporaries",
    )  # fmt: skip

    def __init__(self, number: int, peer: str, now: float) -> None:
        self.number = number
        self.peer = peer
        # The host that it shares with us; empty for clients elsewhere.
        self.host = ""
        self.phase = Phase.HELLO
        self.reader = FrameReader()
        self.identity = b""
        self.client_id: str | None = None
        self.principal: str | None = None
        # It came with a ticket of this server, so that what it says of its past is about this server.
        self.proved = False
        # It may have temporary destinations.
        self.temporaries = False
        self.heartbeat = HEARTBEAT_SECONDS
        # When the connection began (or the client went away), when we last heard and last spoke.
        self.opened = self.heard = self.spoke = now
        self.sessions: dict[int, SessionState] = {}
        self.scram: ScramServer | None = None
        self.greeting: dict[str, object] = {}
