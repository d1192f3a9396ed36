"""The hold of a query: the server keeps what the query has not read, and shows how far behind it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tocsin.client.sync import Connection
from tocsin.model.destination import Destination, Kind
from tocsin.model.spark_limits import SPARK_HOLD_REFRESH_SECONDS
from tocsin.spark.offsets import Position


class Hold:
    """Moves with the query. One that stands still is set again now and then, because holds expire."""

    def __init__(self, name: str | None, seconds: float, clock: Callable[[], float]) -> None:
        self._name = name
        self._seconds = seconds
        self._clock = clock
        self._set: dict[str, tuple[Position, float]] = {}

    def move(self, connection: Connection, found: Mapping[str, Destination], positions: Mapping[str, Position]) -> None:
        if self._name is None:
            return
        now = self._clock()
        every = min(SPARK_HOLD_REFRESH_SECONDS, self._seconds / 4)
        for name, position in positions.items():
            where = found.get(name)
            if where is None or where.kind is not Kind.TOPIC:
                continue
            before = self._set.get(name)
            if before is None or before[0] != position or now - before[1] >= every:
                connection.hold(where, self._name, position.number, self._seconds, identity=position.identity)
                self._set[name] = position, now
