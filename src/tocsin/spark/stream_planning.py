"""What the driver of a streaming query decides: where it begins, how far the next batch goes, which ranges that is.

Spark calls `latest` with the end of the batch before, which is committed by then. So this is the moment to move the
hold that keeps retention away, and to acknowledge what was drained. Spark's own commit comes one batch late, and never
for the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tocsin.client.reading import Offsets
from tocsin.client.sync import Connection
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import InvalidDestination
from tocsin.spark.admission import Patience, share
from tocsin.spark.bounds import aged_out, gone, made_again, set_back, start_offset
from tocsin.spark.draining import Drains
from tocsin.spark.holding import Hold
from tocsin.spark.offsets import Position, Positions
from tocsin.spark.partitioning import Slice
from tocsin.spark.selector_check import check_selector
from tocsin.spark.source_options import SourceOptions
from tocsin.spark.subscription import Subscription


@dataclass(frozen=True, slots=True)
class Backlog:
    """What there is of a topic: from where the query is up to the end of now."""

    identity: str
    start: int
    end: int


class StreamPlanner:
    def __init__(
        self, options: SourceOptions, connect: Callable[[], Connection], clock: Callable[[], float], drain_id: str
    ) -> None:
        self._options = options
        self._connect = connect
        self._clock = clock
        self._subscription = Subscription(options, clock)
        self._hold = Hold(options.hold, options.hold_seconds, clock)
        self._drains = Drains(drain_id, lenient=not options.fail_on_data_loss)
        self._patience = Patience(options.min_offsets, options.max_delay)
        self._targets: Positions | None = None
        # What `latest` has said last, and what it knew then: Spark asks for the slices of just that.
        self._last: tuple[Positions, Positions] | None = None
        self._known: dict[str, Offsets] = {}

    def initial(self) -> Positions:
        """Where a query without a checkpoint begins."""
        connection = self._connect()
        found = self._subscription.destinations(connection)
        check_selector(connection, list(found.values()), self._options.filter)
        positions: Positions = {}
        for name, where in found.items():
            known = connection.offsets(where)
            if where.kind is Kind.QUEUE:
                positions[name] = self._drains.begin(known.identity)
            else:
                positions[name] = Position(known.identity, start_offset(connection, where, known, self._options))
        self._hold.move(connection, found, positions)
        return positions

    def available_now(self) -> None:
        """The query ends when it has read what there is at this moment."""
        connection = self._connect()
        found = self._subscription.destinations(connection)
        self._drains.limit(connection, _queues(found))
        self._targets = {}
        for name, where in _topics(found).items():
            known = connection.offsets(where)
            self._targets[name] = Position(known.identity, known.end)

    def latest(self, start: Positions, limit: int | None) -> Positions:
        """How far the next batch goes; `start` when there is nothing new."""
        connection = self._connect()
        found = self._subscription.destinations(connection)
        self._drains.finish(connection, _queues(found), start)
        backlogs = self._backlogs(connection, _topics(found), start)
        self._hold.move(connection, found, self._of_today(start))
        waiting = self._drains.waiting(connection, _queues(found), start)
        sizes = {name: each.end - each.start for name, each in backlogs.items()} | waiting
        if limit is not None and self._targets is None and self._patience.waits(sum(sizes.values()), self._clock()):
            sizes = dict.fromkeys(sizes, 0)
        shares = share(sizes, limit)
        end = dict(start)
        for name, each in backlogs.items():
            end[name] = Position(each.identity, each.start + shares[name])
        end |= self._drains.take(connection, _queues(found), start, shares)
        self._last = start, end
        return end

    def newest(self) -> Positions | None:
        """For the progress report: where all topics end, as far as `latest` has seen."""
        if self._last is None:
            return None
        known = {name: Position(each.identity, each.end) for name, each in self._known.items()}
        return {**self._last[1], **known}

    def slices(self, start: Positions, end: Positions) -> list[Slice]:
        """The ranges between two offsets."""
        connection = self._connect()
        found = self._subscription.destinations(connection)
        planned = self._last == (start, end)
        slices: list[Slice] = []
        for name, upto in sorted(end.items()):
            since = start.get(name)
            if upto.drain is not None:
                where = Destination(Kind.QUEUE, name)
                slices += self._drains.slices(connection, where, since, upto)
            elif since is None or since != upto:
                topic = found.get(name, Destination(Kind.TOPIC, name))
                slices += self._topic_slices(connection, topic, since, upto, planned)
        return slices

    def _backlogs(
        self, connection: Connection, topics: Mapping[str, Destination], start: Positions
    ) -> dict[str, Backlog]:
        backlogs: dict[str, Backlog] = {}
        self._known = {}
        for name, where in topics.items():
            known = _offsets(connection, where)
            if known is not None:
                self._known[name] = known
                if (each := self._backlog(name, where, start.get(name), known)) is not None:
                    backlogs[name] = each
        for name in [name for name, position in start.items() if position.drain is None]:
            if name not in self._known and self._options.fail_on_data_loss:
                raise gone(name)
        return backlogs

    def _backlog(self, name: str, where: Destination, since: Position | None, known: Offsets) -> Backlog | None:
        begin = known.first
        if since is not None and since.identity == known.identity:
            begin = self._still_there(where, since.number, known)
        elif since is not None and self._options.fail_on_data_loss:
            raise made_again(name)
        end = known.end
        if self._targets is not None:
            target = self._targets.get(name)
            if target is None and since is None:
                # It came after the moment that the query is to read up to.
                return None
            if target is not None and target.identity == known.identity:
                end = min(end, target.number)
        return Backlog(known.identity, begin, max(begin, end))

    def _of_today(self, positions: Positions) -> Positions:
        """Those of topics that are still the same ones."""
        return {
            name: position
            for name, position in positions.items()
            if name in self._known and self._known[name].identity == position.identity
        }

    def _still_there(self, where: Destination, offset: int, known: Offsets) -> int:
        if known.first <= offset <= known.end:
            return offset
        if not self._options.fail_on_data_loss:
            return min(max(offset, known.first), known.end)
        if offset < known.first:
            raise aged_out(where, offset, known.first)
        raise set_back(where, offset, known.end)

    def _topic_slices(
        self, connection: Connection, where: Destination, since: Position | None, upto: Position, planned: bool
    ) -> list[Slice]:
        known = self._known.get(where.name) if planned else _offsets(connection, where)
        if known is None or known.identity != upto.identity:
            # A batch that is read again after a restart, of a topic that is another one by now.
            if self._options.fail_on_data_loss:
                raise gone(where.name) if known is None else made_again(where.name)
            return []
        begin = known.first
        if since is not None and since.identity == upto.identity:
            begin = self._still_there(where, since.number, known)
        # A range that goes on behind the end would be read when it has other messages.
        end = self._still_there(where, max(upto.number, known.first), known)
        return [Slice(str(where), begin, end, identity=upto.identity)] if begin < end else []


def _offsets(connection: Connection, where: Destination) -> Offsets | None:
    """None when the destination is not there any more."""
    try:
        return connection.offsets(where)
    except InvalidDestination:
        return None


def _queues(found: Mapping[str, Destination]) -> dict[str, Destination]:
    return {name: where for name, where in found.items() if where.kind is Kind.QUEUE}


def _topics(found: Mapping[str, Destination]) -> dict[str, Destination]:
    return {name: where for name, where in found.items() if where.kind is Kind.TOPIC}
