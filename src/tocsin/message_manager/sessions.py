"""Who is there: sessions, connections and client ids, each with the origin that spoke for it last.

An origin is one link of a client manager, "node/boot/link"; in a server of one process there is only one, without
slashes. When a client manager is gone, all that came from it is remembered as a departure: what nobody has spoken for
from another origin when the grace is over has gone for good. Nothing of this is in the journal: client managers say it
again when they link to a new primary.

    client_id.claim    {client_id, connection, user, again?}  one connection has it, wherever it speaks from
    client_id.release  {client_id, connection}          counts only from the client manager that holds the claim
    client_id.check    {client_id, user}                refused if others have durable subscriptions with it here
    connection.keep    {connections, arrived?}          they live there, and so do their temporary destinations

A client manager that has not noticed yet that a client went elsewhere says with its next link that the client is there.
So what is said `again`, or without `arrived`, moves nothing away from where the client came to since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tocsin.cluster.commands import ConsumerKey, OpenConsumer, OpenProducer
from tocsin.model.errors import IllegalState, InvalidClientId, ProtocolError, ResourceExhausted
from tocsin.model.limits import CLIENT_ID_BYTES_MAX, CLIENT_IDS_MAX

NOBODY = ""
"""The origin of a connection that nobody has spoken for."""


@dataclass(slots=True)
class Session:
    origin: str
    epoch: int
    connection: bytes
    destinations: list[int] = field(default_factory=list)
    """Where it has producers or consumers, each once: mostly one, for which a set is large."""


@dataclass(slots=True)
class Claim:
    connection: bytes
    origin: str


@dataclass(slots=True)
class Departure:
    """What went at one moment, each with the origin it had: one that has another by the deadline is still there."""

    deadline: float
    prefix: str
    """Whose links they were on."""
    sessions: list[tuple[bytes, str]] = field(default_factory=list)
    consumers: list[tuple[ConsumerKey, str]] = field(default_factory=list)
    """Also those of sessions that have moved already, and left them behind."""
    connections: list[tuple[bytes, str]] = field(default_factory=list)
    client_ids: list[tuple[str, str]] = field(default_factory=list)

    def take(self, most: int) -> tuple[Departure, bool]:
        """The next part of it, which is taken out; and whether that was the last."""
        part = Departure(self.deadline, self.prefix)
        left = most
        for name in ("sessions", "consumers", "connections", "client_ids"):
            everything: list[Any] = getattr(self, name)
            setattr(part, name, everything[:left])
            del everything[:left]
            left -= len(getattr(part, name))
        return part, not (self.sessions or self.consumers or self.connections or self.client_ids)


def is_of(origin: str, prefix: str) -> bool:
    """Whether the prefix, "node/boot/", is the origin's; a whole origin is its own prefix alone."""
    return origin.startswith(prefix) if prefix.endswith("/") else origin == prefix


def same_manager(origin: str, other: str) -> bool:
    """Whether two origins are links of one boot of one client manager."""
    return origin == other or origin.rpartition("/")[0] == other.rpartition("/")[0]


class Sessions:
    __slots__ = ("_departures", "_operations", "client_ids", "connections", "known")

    def __init__(self) -> None:
        self.known: dict[bytes, Session] = {}
        self.connections: dict[bytes, str] = {}
        self.client_ids: dict[str, Claim] = {}
        self._departures: deque[Departure] = deque()
        self._operations: dict[str, Callable[[str, dict[str, Any]], None]] = {
            "client_id.claim": self._claim,
            "client_id.release": self._release,
            "connection.keep": self._keep,
        }

    # ---- who comes

    def check(self, command: OpenProducer | OpenConsumer, epochs: Mapping[bytes, int]) -> None:
        """Whether it is the session's own word; `epochs` are those of sessions that have moved, whether or not they are
        there now.
        """
        known = self.known.get(command.session)
        if command.epoch < max(epochs.get(command.session, 0), 0 if known is None else known.epoch):
            raise IllegalState("The session has moved on: its client has come back through another connection.")

    def check_speaker(self, origin: str, session: bytes) -> None:
        """Whether what a session sends is its own word: a client that has come back elsewhere sends there what was not
        confirmed, and one that has closed its session has nothing more to say. What is late would be stored twice.
        """
        known = self.known.get(session)
        if known is None:
            raise IllegalState("The session is over: its client has closed it, or has not come back in time.")
        if not same_manager(known.origin, origin):
            raise IllegalState("The session has moved on: its client has come back through another connection.")

    def arrived(self, origin: str, command: OpenProducer | OpenConsumer, destination: int) -> None:
        known = self.known.get(command.session)
        if known is None:
            known = self.known[command.session] = Session(origin, command.epoch, command.connection)
        known.origin, known.epoch, known.connection = origin, command.epoch, command.connection
        if destination not in known.destinations:
            known.destinations.append(destination)
        self.connections[command.connection] = origin

    def outdated(self, origin: str, session: bytes, epoch: int) -> bool:
        """Whether a word about the session comes too late: it has come back meanwhile, perhaps elsewhere."""
        known = self.known.get(session)
        if known is None or epoch > known.epoch:
            return False
        return epoch < known.epoch or not same_manager(known.origin, origin)

    def closes(self, connection: bytes, origin: str) -> bool:
        """The connection is over, unless it lives at another client manager by now."""
        here = same_manager(self.connections.get(connection, origin), origin)
        if here:
            self.connections.pop(connection, None)
        return here

    # ---- what client managers say of connections

    def knows(self, operation: str) -> bool:
        return operation in self._operations

    def run(self, origin: str, operation: str, fields: dict[str, Any]) -> dict[str, Any]:
        self._operations[operation](origin, fields)
        return {}

    def _claim(self, origin: str, fields: dict[str, Any]) -> None:
        client_id, connection = client_id_of(fields), _connection(fields.get("connection"))
        claim = self.client_ids.get(client_id)
        if claim is not None and claim.connection != connection:
            raise InvalidClientId(f"The client id {client_id!r} is in use by another connection.")
        if claim is None and len(self.client_ids) >= CLIENT_IDS_MAX:
            raise ResourceExhausted(f"There are {CLIENT_IDS_MAX} client ids in use, which is the most.")
        if claim is None or not fields.get("again") or self._may_move(claim.origin, origin):
            self.client_ids[client_id] = Claim(connection, origin)

    def _release(self, origin: str, fields: dict[str, Any]) -> None:
        client_id, connection = client_id_of(fields), _connection(fields.get("connection"))
        claim = self.client_ids.get(client_id)
        if claim is not None and claim.connection == connection and same_manager(claim.origin, origin):
            del self.client_ids[client_id]

    def _keep(self, origin: str, fields: dict[str, Any]) -> None:
        connections = fields.get("connections")
        if not isinstance(connections, list):
            raise ProtocolError("The field 'connections' of a request must be a list of connection ids.")
        arrived = bool(fields.get("arrived"))
        for connection in map(_connection, connections):
            if arrived or self._may_move(self.connections.get(connection, origin), origin):
                self.connections[connection] = origin

    def _may_move(self, former: str, origin: str) -> bool:
        """From another link of the same client manager, or from one that is gone."""
        return same_manager(former, origin) or any(is_of(former, departure.prefix) for departure in self._departures)

    # ---- who goes

    def gone(self, prefix: str, consumers: Iterable[tuple[ConsumerKey, str]], deadline: float) -> Departure:
        departure = Departure(
            deadline,
            prefix,
            [(each, known.origin) for each, known in self.known.items() if is_of(known.origin, prefix)],
            list(consumers),
            [(each, origin) for each, origin in self.connections.items() if is_of(origin, prefix)],
            [(each, claim.origin) for each, claim in self.client_ids.items() if is_of(claim.origin, prefix)],
        )
        if departure.sessions or departure.consumers or departure.connections or departure.client_ids:
            self._departures.append(departure)
        return departure

    def awaited(self, connections: Iterable[bytes], deadline: float) -> None:
        """Nobody has spoken for these connections yet; by the deadline somebody should have."""
        missing = [(each, NOBODY) for each in connections if each not in self.connections]
        if missing:
            self._departures.append(Departure(deadline, NOBODY, connections=missing))

    def next_deadline(self) -> float | None:
        return self._departures[0].deadline if self._departures else None

    def due(self, now: float, most: int) -> Departure | None:
        """Of the first departure whose grace is over the next part, of so many at most, without those who came back;
        None when there is no more. Its connections and client ids are free then.

        A session that went twice, with its link and with its client manager, goes with the first: each departure is
        looked at when the one before it is done with.
        """
        if not self._departures or self._departures[0].deadline > now:
            return None
        part, over = self._departures[0].take(most)
        if over:
            self._departures.popleft()
        self._keep_who_came_back(part)
        return part

    def _keep_who_came_back(self, part: Departure) -> None:
        part.sessions = [
            (each, origin)
            for each, origin in part.sessions
            if (known := self.known.get(each)) is not None and known.origin == origin
        ]
        part.connections = [
            (each, origin) for each, origin in part.connections if self.connections.get(each, NOBODY) == origin
        ]
        for each, _ in part.connections:
            self.connections.pop(each, None)
        for client_id, origin in part.client_ids:
            claim = self.client_ids.get(client_id)
            if claim is not None and claim.origin == origin:
                del self.client_ids[client_id]


def client_id_of(fields: dict[str, Any]) -> str:
    client_id = fields.get("client_id")
    if not isinstance(client_id, str) or not 0 < len(client_id.encode("utf-8", "replace")) <= CLIENT_ID_BYTES_MAX:
        raise InvalidClientId(f"A client id is a text of 1 to {CLIENT_ID_BYTES_MAX} bytes.")
    return client_id


def _connection(connection: object) -> bytes:
    if not isinstance(connection, bytes) or len(connection) != 16:
        raise ProtocolError("A connection is known by an id of 16 bytes.")
    return connection
