"""One client connection as the client manager knows it."""

from __future__ import annotations

from enum import Enum

from tocsin.client_manager.accounts import Account
from tocsin.client_manager.quotas import Usage
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
        "account",
        "claiming",
        "client_id",
        "greeting",
        "heard",
        "heartbeat",
        "host",
        "identity",
        "number",
        "opened",
        "over_tls",
        "peer",
        "phase",
        "principal",
        "proved",
        "reader",
        "scram",
        "sessions",
        "slow",
        "spoke",
        "standing",
        "temporaries",
        "usage",
    )  # fmt: skip

    def __init__(self, number: int, peer: str, now: float, account: Account) -> None:
        self.number = number
        self.account = account
        self.peer = peer
        # It takes what it is sent so slowly that its consumers are given no more for now.
        self.slow = False
        # The host that it shares with us; empty for clients elsewhere.
        self.host = ""
        # It is encrypted, so that a login can be bound to it.
        self.over_tls = False
        self.phase = Phase.HELLO
        self.reader = FrameReader()
        self.identity = b""
        self.client_id: str | None = None
        # The group that keeps client ids has not said yet whether it may have this one.
        self.claiming = False
        self.principal: str | None = None
        # The user's keys at the login, as `Login.standing` gave them.
        self.standing = b""
        # What counts for the user.
        self.usage = Usage(None)
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

    @property
    def is_away(self) -> bool:
        """Its client is gone and may come back."""
        return self.phase is Phase.AWAY

    def is_silent(self, now: float) -> bool:
        """Whether nothing has come for too long from a client that is read."""
        if self.account.paused:
            # What it says meanwhile is not heard. Others may have made room, too.
            self.account.look_again()
            self.heard = now
        return now - self.heard > 2 * self.heartbeat
