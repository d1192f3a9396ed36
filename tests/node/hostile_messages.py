"""Messages between nodes with every field at its extremes, one at a time, for whoever can seal them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from math import inf, nan
from typing import Any

from tocsin.cluster.commands import (
    Administer,
    Answer,
    CloseConnection,
    CloseConsumer,
    CloseProducer,
    CloseSession,
    Command,
    ConsumerEnded,
    Delivery,
    Failed,
    GrantCredit,
    NotStored,
    OpenConsumer,
    OpenProducer,
    PauseSession,
    Reply,
    SettledTo,
    SettleMessages,
    Stored,
    Unreadable,
)
from tocsin.cluster.envelope import Commands, Envelope, GroupStatus, MemberRole, NameChanged, Replies, Unlinked
from tocsin.cluster.group_config import Ballot, GroupConfig, Replica
from tocsin.cluster.lives import Known, Life, Seen
from tocsin.cluster.register_messages import (
    Accept,
    Accepted,
    CommitSeen,
    Heartbeat,
    HeartbeatAnswer,
    Initialise,
    Outdated,
    Prepare,
    Promise,
    Refuse,
    Resigned,
)
from tocsin.model.destination import parse_destination
from tocsin.model.errors import IllegalState
from tocsin.model.identity import DestinationId
from tocsin.replication.log import Entry
from tocsin.replication.messages import (
    Acked,
    CopyGiven,
    CopyWanted,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    GroupMessage,
    Nack,
    Order,
    OrderEntry,
    Reference,
    SnapshotChunk,
    SnapshotWanted,
    Stand,
)
from tocsin.replication.rules import LogEnd
from tocsin.wire.frames import Outcome, Settle

NUMBERS = tuple(
    edge + step for edge in (0, 1 << 8, 1 << 16, 1 << 31, 1 << 32, 1 << 62, 1 << 63, 1 << 64) for step in (-1, 0, 1)
)
TIMES = (nan, inf, -inf, -1.0, 0.0, 1e300, -1e300, 5e-324)
BYTES = (b"", b"\0" * 16, b"\xff" * 16, b"\xff" * 70_000)
TEXTS = ("", "\0", "x" * 60_000, "\N{GRINNING FACE}" * 300)

_IN_MAPS: tuple[Any, ...] = (-1, 1 << 63, nan, "", None, [], [{}], {}, b"", True)
_OPERATIONS = (
    "destination.create", "destination.list", "destination.show", "destination.purge", "temporary.create",
    "subscription.check", "subscription.replace", "subscription.delete", "offset.range", "offset.at", "offset.cuts",
    "offset.files", "hold.set", "hold.release", "drain.take", "drain.list", "drain.finish", "drain.release",
    "stage.open", "stage.claim", "stage.commit", "stage.check", "stage.drop", "stage.last", "destination.delete",
)  # fmt: skip
_FIELDS: dict[str, Any] = {
    "kind": "queue", "prefix": "", "after": "", "limit": 10,
    "first": 0, "last": 10, "offset": 0, "count": 3, "until": 1.0, "seconds": 1.0, "time": 1.0, "session": b"s" * 16,
    "connection": b"c" * 16, "subscription": "sub", "client_id": "id", "selector": "a = 1", "hold": "h", "drain": "d",
    "app": "app", "epoch": 1, "stage": "s", "options": {}, "durable": True, "shared": False, "messages": 1, "bytes": 1,
}  # fmt: skip
_PLAIN: tuple[tuple[type, tuple[Any, ...]], ...] = (
    (bool, (False, True)),
    (int, NUMBERS),
    (float, TIMES),
    (bytes, BYTES),
    (str, TEXTS),
)


def extremes(value: Any) -> Iterator[Any]:
    """The value again and again, each time with another part of it at another extreme."""
    plain = next((others for kind, others in _PLAIN if isinstance(value, kind)), None)
    if plain is not None:
        yield from plain
    elif hasattr(value, "_replace"):
        for name in value._fields:
            yield from (value._replace(**{name: other}) for other in extremes(getattr(value, name)))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            others = extremes(getattr(value, field.name))
            yield from (replace(value, **{field.name: other}) for other in others)
    elif isinstance(value, tuple | list):
        yield type(value)()
        yield type(value)(each for each in value for _ in range(40))
        for place, item in enumerate(value):
            yield from (type(value)([*value[:place], other, *value[place + 1 :]]) for other in extremes(item))
    elif isinstance(value, dict):
        yield {}
        for key, item in value.items():
            yield from ({**value, key: other} for other in _IN_MAPS if other is not item)


def group_samples(epoch: int, sender: int, config: GroupConfig, last: int) -> list[GroupMessage]:
    """One of each kind, as a member of the group could say it now."""
    own = next((each for each in config.in_sync if each.node == sender), Replica(sender, 1))
    vote = next((each for each in config.voters if each.node == sender), Replica(sender, 1))
    ballot, life = Ballot(3, sender, 1), Life(1, (0,), 0)
    known = Known((Seen(own, 1, last),), (Seen(vote, 1, 3),))
    wanted = CopyWanted(last, 1, 1)
    reference = Reference(b"p" * 16, 1, b"d" * 16)
    return [
        Prepare(ballot),
        Promise(ballot, vote, ballot, config, last, life, known),
        Refuse(ballot, ballot, 0.1),
        Accept(ballot, config),
        Accepted(ballot, vote, life),
        Initialise(config),
        Heartbeat(epoch, 1.0, True, last, last, config, ((sender, 1.0),), known, 1000.0),
        HeartbeatAnswer(epoch, 1.0, 1.0, True, vote, life),
        Resigned(epoch, 1.0),
        CommitSeen(epoch, last),
        Outdated(Seen(own, 1, last)),
        Order(epoch, epoch, last + 1, last, (OrderEntry(9, b"inline", None), OrderEntry(9, b"", reference))),
        Acked(epoch, own.store, last, life),
        Nack(epoch),
        Fetch(epoch, last, epoch),
        Fetched(epoch, last + 1, epoch, last, 0, (Entry(epoch, 9, (b"payload",)),)),
        Fence(epoch),
        Fenced(epoch, own, LogEnd(epoch, last), life),
        SnapshotWanted(0, 0),
        SnapshotChunk(last + 9, epoch, 0, 2, b"d" * 16, b"w" * 16, b"data"),
        Stand(epoch),
        wanted,
        CopyGiven(wanted, True, b"payload"),
    ]


def command_samples(session: bytes, connection: bytes, destination: int, name: str = "queue:orders") -> list[Command]:
    """One of each kind but for blocks, which have a check of their own."""
    orders = parse_destination(name)
    asked = {**_FIELDS, "name": name, "destination": name}
    return [
        OpenProducer(5, session, 1, orders, connection),
        CloseProducer(session, DestinationId(destination)),
        OpenConsumer(6, session, 2, orders, connection, "id", messages=10, bytes=1000, held=[(1, 2)]),
        CloseConsumer(7, (session, 2)),
        GrantCredit((session, 2), 1, 1),
        SettleMessages((session, 2), Settle(2, Outcome.ACKNOWLEDGE, 1, [(1, 2)])),
        PauseSession(session, 1),
        CloseSession(8, session, True, 1),
        CloseConnection(connection, 9),
        *(Administer(10, operation, asked) for operation in _OPERATIONS),
    ]


def reply_samples(session: bytes) -> list[Reply]:
    error = IllegalState("no")
    return [
        Stored(session, 1, 1, 1),
        NotStored(session, 1, 1, 2, error),
        Delivery((session, 2), 1, 1, [(0, 1, 1, 0)], b"no block"),
        SettledTo((session, 2), 1),
        ConsumerEnded((session, 2), error),
        Answer(5, {"destination": 1, "names": ["a"]}),
        Failed(6, error),
        Unreadable((session, 2), error),
    ]


def envelope_samples(epoch: int, link: int, session: bytes) -> list[Envelope]:
    """What a group says to client managers."""
    status = GroupStatus(epoch, 1, MemberRole.PRIMARY, (1, 2), (1, 2), 5, 5, 1, 1, 1, 0, 0, 0, 0, False, (1,), (2,))
    replies = [Replies(epoch, link, 1, [reply]) for reply in reply_samples(session)]
    return [*replies, Unlinked(epoch, link), status, NameChanged("orders")]


def commands(epoch: int, link: int, number: int, command: Command) -> Commands:
    return Commands(epoch, link, number, [command])
