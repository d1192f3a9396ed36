"""Commands between client managers and message managers.

A client manager asks, a message manager answers; both refer to a session by its unique id, and to producers and
consumers by the numbers that the client gave them. Blocks travel verbatim. Nothing here is per message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tocsin.model.batch import Block
from tocsin.model.destination import Destination
from tocsin.model.errors import TocsinError
from tocsin.model.identity import DestinationId
from tocsin.model.ranges import Range
from tocsin.model.values import Bytes
from tocsin.wire.frames import Settle

ConsumerKey = tuple[bytes, int]
"""(session id, consumer number): one consumer, anywhere in the cluster."""


# ---- client manager -> message manager


@dataclass(slots=True)
class OpenProducer:
    request: int
    session: bytes
    producer: int
    destination: Destination
    connection: bytes
    epoch: int = 0
    """Of the session: rises each time its client comes back, so that what a former client manager says late is seen."""
    incarnation: int = 0
    """Of the destination, as the directory of names gave it; 0: there is no directory."""
    since: int = 0
    """Where the group's log stood when the producer was opened first, as the answer said; 0: it opens now."""
    confirmed: int = 0
    """The client manager has confirmed everything up to this sequence to its client."""
    user: str | None = None
    """Who asks, and owns what is made with it; None where nobody has to log in."""


@dataclass(slots=True)
class Publish:
    session: bytes
    producer: int
    destination: DestinationId
    block: Block
    client_id: str | None


@dataclass(slots=True)
class CloseProducer:
    """The session's last producer for this destination closed cleanly: its deduplication row can go."""

    session: bytes
    destination: DestinationId
    producer: int = 0
    forget: bool = True
    """False: the session has other producers there; only the client manager's own books need to know."""


@dataclass(slots=True)
class OpenConsumer:
    request: int
    session: bytes
    consumer: int
    destination: Destination
    connection: bytes
    client_id: str | None
    mode: str = "consume"
    selector: str | None = None
    no_local: bool = False
    subscription: str | None = None
    durable: bool = False
    shared: bool = False
    start: dict[str, Any] | None = None
    messages: int = 0
    bytes: int = 0
    held: list[Range] | None = None
    """On resume: what the client has received and not settled. None: a new consumer."""
    epoch: int = 0
    incarnation: int = 0
    user: str | None = None
    """Who asks, and owns what is made with it; None where nobody has to log in."""

    @property
    def key(self) -> ConsumerKey:
        return (self.session, self.consumer)


@dataclass(slots=True)
class CloseConsumer:
    request: int
    key: ConsumerKey


@dataclass(slots=True)
class GrantCredit:
    key: ConsumerKey
    messages: int
    bytes: int


@dataclass(slots=True)
class SettleMessages:
    key: ConsumerKey
    settle: Settle


@dataclass(slots=True)
class PauseSession:
    """The session's connection broke: keep its locks, deliver nothing, until it resumes or is closed."""

    session: bytes
    epoch: int = 0


@dataclass(slots=True)
class CloseSession:
    """The session is over. `counted`: it vanished, so what it had locked counts as a delivery attempt."""

    request: int
    session: bytes
    counted: bool
    epoch: int = 0


@dataclass(slots=True)
class CloseConnection:
    """The connection is over: its temporary destinations go with it. Answered, if it has the number of a request."""

    connection: bytes
    request: int = 0


@dataclass(slots=True)
class Administer:
    """A request about destinations: `operation` is the op of the client protocol."""

    request: int
    operation: str
    fields: dict[str, Any] = field(default_factory=dict)


Command = (
    OpenProducer | Publish | CloseProducer | OpenConsumer | CloseConsumer | GrantCredit | SettleMessages
    | PauseSession | CloseSession | CloseConnection | Administer
)  # fmt: skip


# ---- message manager -> client manager


@dataclass(slots=True)
class Stored:
    session: bytes
    producer: int
    sequence: int
    copies: int


@dataclass(slots=True)
class NotStored:
    session: bytes
    producer: int
    first: int
    last: int
    error: TocsinError


@dataclass(slots=True)
class Delivery:
    key: ConsumerKey
    offset: int
    append_time: int
    ranges: list[tuple[int, int, int, int]]
    block: Bytes


@dataclass(slots=True)
class SettledTo:
    key: ConsumerKey
    number: int


@dataclass(slots=True)
class ConsumerEnded:
    key: ConsumerKey
    error: TocsinError | None


@dataclass(slots=True)
class Unreadable:
    """Messages that the consumer would have got are damaged on the disk; it goes on behind them."""

    key: ConsumerKey
    error: TocsinError


@dataclass(slots=True)
class Answer:
    request: int
    fields: dict[str, Any]


@dataclass(slots=True)
class Failed:
    request: int
    error: TocsinError


Reply = Stored | NotStored | Delivery | SettledTo | ConsumerEnded | Unreadable | Answer | Failed
