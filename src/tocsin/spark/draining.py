"""Queues as a stream: each batch takes messages under a number, and acknowledges them once it is committed.

A take locks messages durably for the drain. Its number is the offset in Spark's checkpoint, so a batch that is run
again after a failure reads the messages of the same takes. What was taken and not acknowledged when a batch failed is
read again with its number: at least once. A drain that nobody asks for a day gives everything back to the queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tocsin.client.draining import DrainTake
from tocsin.client.sync import Connection
from tocsin.model.destination import Destination
from tocsin.model.errors import DataLost
from tocsin.model.spark_limits import SPARK_DRAIN_SECONDS, SPARK_DRAIN_TAKES_MAX
from tocsin.spark.offsets import Position, Positions
from tocsin.spark.partitioning import Slice


class Drains:
    """The drains of one query, one per queue, under one id."""

    def __init__(self, drain_id: str, *, lenient: bool = False) -> None:
        """`lenient`: a queue that was made again is read from its beginning, and not an error."""
        self._id = drain_id
        self._lenient = lenient
        self._finished: Positions = {}
        # Queues that were asked in this run of the query: before that, takes of an earlier run may be waiting.
        self._asked: set[str] = set()
        self._left: dict[str, int] | None = None

    def begin(self, identity: str) -> Position:
        return Position(identity, 0, self._id)

    def limit(self, connection: Connection, queues: Mapping[str, Destination]) -> None:
        """No more is taken than is there now."""
        self._left = {name: _backlog(connection, where) for name, where in queues.items()}

    def finish(self, connection: Connection, queues: Mapping[str, Destination], committed: Positions) -> None:
        """Acknowledges everything up to a committed offset."""
        for name, where in queues.items():
            position = committed.get(name)
            if position is None or not position.number or position.drain is None:
                continue
            if self._finished.get(name) == position:
                continue
            with self._forgiving():
                connection.drain_finish(where, position.drain, position.number, identity=position.identity)
            self._finished[name] = position

    def waiting(self, connection: Connection, queues: Mapping[str, Destination], start: Positions) -> dict[str, int]:
        """How many messages could be taken; at least one where nobody has asked yet."""
        found: dict[str, int] = {}
        for name, where in queues.items():
            backlog = _backlog(connection, where)
            if self._left is not None:
                backlog = min(backlog, max(0, self._left.get(name, 0)))
            found[name] = backlog if name in self._asked else max(1, backlog)
        return found

    def take(
        self,
        connection: Connection,
        queues: Mapping[str, Destination],
        start: Positions,
        shares: Mapping[str, int],
    ) -> Positions:
        """Locks up to so many messages of each queue; the positions afterwards."""
        positions: Positions = {}
        for name, where in queues.items():
            position = start.get(name) or self.begin(connection.offsets(where).identity)
            wanted = shares.get(name, 0)
            try:
                positions[name] = self._take(connection, name, where, position, wanted)
            except DataLost:
                if not self._lenient:
                    raise
                positions[name] = self.begin(connection.offsets(where).identity)
        return positions

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        """What a query had of a queue that is gone is gone, too."""
        try:
            yield
        except DataLost:
            if not self._lenient:
                raise

    def _take(self, connection: Connection, name: str, where: Destination, position: Position, wanted: int) -> Position:
        assert position.drain is not None
        number, day = position.number, round(SPARK_DRAIN_SECONDS)
        for _ in range(SPARK_DRAIN_TAKES_MAX):
            if wanted <= 0:
                break
            taken = connection.drain_take(
                where, position.drain, number, messages=wanted, seconds=day, identity=position.identity
            )
            self._asked.add(name)
            if not taken.messages:
                break
            number = taken.take
            wanted -= taken.messages
            if self._left is not None:
                self._left[name] = self._left.get(name, 0) - taken.messages
            if not taken.more:
                break
        return Position(position.identity, number, position.drain)

    def slices(self, connection: Connection, where: Destination, since: Position | None, upto: Position) -> list[Slice]:
        assert upto.drain is not None
        known = since is not None and (since.drain, since.identity) == (upto.drain, upto.identity)
        after = since.number if since is not None and known else 0
        if after >= upto.number:
            return []
        # Takes that are missing were given back in the meantime; their messages come again with later takes.
        takes: list[DrainTake] = []
        with self._forgiving():
            takes = connection.drain_list(where, upto.drain, after, upto.number, identity=upto.identity)
        return [
            Slice(str(where), each.first, each.end, upto.drain, each.take, each.messages, upto.identity)
            for each in takes
        ]


def _backlog(connection: Connection, where: Destination) -> int:
    return int(connection.show_destination(where)["messages"])
