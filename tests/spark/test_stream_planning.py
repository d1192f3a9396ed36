"""A streaming query's decisions, against a server that is told what it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from tests.spark.test_source_options import read

from tocsin.client.admin import DestinationInfo
from tocsin.client.draining import DrainTake
from tocsin.client.reading import Offsets
from tocsin.client.sync import Connection
from tocsin.model.destination import Destination, Kind, parse_destination
from tocsin.model.errors import DataLost, InvalidDestination
from tocsin.spark.offsets import Position
from tocsin.spark.partitioning import Slice
from tocsin.spark.stream_planning import StreamPlanner


@dataclass
class Server:
    """Topics by name: first offset, end, identity. A queue is the number of its messages."""

    topics: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)
    holds: list[tuple[str, str, int]] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    takes: dict[int, DrainTake] = field(default_factory=dict)
    queue_identity: str = "q"
    requests: int = 0
    now: float = 0.0

    def destinations(self, prefix: str = "") -> list[DestinationInfo]:
        topics = [Destination(Kind.TOPIC, name) for name in self.topics]
        found = [DestinationInfo(where, {"retained": True}) for where in topics]
        found += [DestinationInfo(Destination(Kind.QUEUE, name), {}) for name in self.queues]
        return [info for info in found if info.name.startswith(prefix)]

    def show_destination(self, where: Destination) -> DestinationInfo:
        return DestinationInfo(where, {"messages": self.queues[where.name]})

    def offsets(self, where: Destination | str) -> Offsets:
        self.requests += 1
        name = where.name if isinstance(where, Destination) else parse_destination(where).name
        if name in self.queues:
            return Offsets(0, self.queues[name], self.queue_identity, False)
        if name not in self.topics:
            raise InvalidDestination(f"There is no {where}.")
        first, end, identity = self.topics[name]
        return Offsets(first, end, identity, True)

    def hold(self, where: Destination, name: str, offset: int, seconds: float, *, identity: str) -> None:
        assert identity == self.topics[where.name][2]
        self.holds.append((where.name, name, offset))

    def drain_take(self, where: Destination, drain: str, after: int, **limits: Any) -> DrainTake:
        self._check_queue(limits["identity"])
        if after + 1 in self.takes:
            return self.takes[after + 1]
        count = min(self.queues[where.name], limits["messages"])
        if not count:
            return DrainTake(after, 0, 0, (), False)
        self.queues[where.name] -= count
        made = DrainTake(
            after + 1, count, 100 * count, ((after * 100, after * 100 + count),), self.queues[where.name] > 0
        )
        self.takes[made.take] = made
        return made

    def drain_list(self, where: Destination, drain: str, after: int, upto: int, *, identity: str) -> list[DrainTake]:
        self._check_queue(identity)
        return [take for number, take in self.takes.items() if after < number <= upto]

    def drain_finish(self, where: Destination, drain: str, upto: int, *, identity: str) -> int:
        self._check_queue(identity)
        self.finished.append(upto)
        return 0

    def _check_queue(self, identity: str) -> None:
        if identity != self.queue_identity:
            raise DataLost("The queue is not the one that these offsets are of.")


Make = Callable[..., StreamPlanner]


@pytest.fixture
def server() -> Server:
    return Server(topics={"prices": (0, 100, "p1")})


@pytest.fixture
def planner(server: Server) -> Make:
    def make(**options: Any) -> StreamPlanner:
        chosen = read(streaming=True, **options)
        return StreamPlanner(chosen, lambda: cast(Connection, server), lambda: server.now, "drain-1")

    return make


def at(number: int, identity: str = "p1") -> dict[str, Position]:
    return {"prices": Position(identity, number)}


def test_a_new_query_begins_at_the_end_unless_told_otherwise(planner: Make) -> None:
    assert planner().initial() == at(100)
    assert planner(startingOffsets="earliest").initial() == at(0)
    assert planner(startingOffsets='{"prices": 7}').initial() == at(7)


def test_a_batch_goes_to_the_end_or_to_its_limit(planner: Make) -> None:
    query = planner()
    assert query.latest(at(10), None) == at(100)
    assert query.latest(at(10), 25) == at(35)
    assert query.slices(at(10), at(35)) == [Slice("topic:prices", 10, 35, identity="p1")]
    assert query.newest() == at(100)


def test_nothing_new_is_the_same_offset(planner: Make) -> None:
    query = planner()
    assert query.latest(at(100), 25) == at(100)
    assert query.slices(at(100), at(100)) == []


def test_the_slices_of_what_was_just_planned_ask_nothing_again(planner: Make, server: Server) -> None:
    query = planner()
    end = query.latest(at(10), 25)
    asked = server.requests
    query.slices(at(10), end)
    assert server.requests == asked


def test_a_limit_is_divided_in_proportion(planner: Make, server: Server) -> None:
    server.topics["trades"] = (0, 900, "t1")
    query = planner(subscribe="prices,trades")
    start = {**at(0), "trades": Position("t1", 0)}
    assert query.latest(start, 100) == {**at(10), "trades": Position("t1", 90)}


def test_available_now_stops_where_it_began(planner: Make, server: Server) -> None:
    query = planner(subscribe=None, subscribePattern="p.*")
    query.available_now()
    server.topics["prices"] = (0, 500, "p1")
    server.topics["past"] = (0, 5, "n1")
    server.now = 10.0
    assert query.latest(at(60), 30) == at(90)
    assert query.latest(at(90), 30) == at(100)
    assert query.latest(at(100), 30) == at(100)


def test_a_topic_that_comes_to_match_is_read_from_its_beginning(planner: Make, server: Server) -> None:
    query = planner(subscribe=None, subscribePattern="p.*", startingOffsets="latest")
    start = query.initial()
    server.topics["past"] = (0, 5, "n1")
    server.now = 10.0
    end = query.latest(start, None)
    assert end == {**at(100), "past": Position("n1", 5)}
    assert query.slices(start, end) == [Slice("topic:past", 0, 5, identity="n1")]


def test_what_retention_has_removed_is_told(planner: Make, server: Server) -> None:
    server.topics["prices"] = (50, 100, "p1")
    with pytest.raises(DataLost, match=r"from offset 10 to 50.*retention has removed them.*failOnDataLoss.*groupId"):
        planner().latest(at(10), None)
    with pytest.raises(DataLost, match="from offset 10 to 50"):
        planner().slices(at(10), at(60))
    lenient = planner(failOnDataLoss=False)
    assert lenient.latest(at(10), None) == at(100)
    assert lenient.slices(at(10), at(60)) == [Slice("topic:prices", 50, 60, identity="p1")]
    assert lenient.slices(at(10), at(40)) == []


def test_a_topic_that_was_set_back_gives_its_offsets_to_other_messages(planner: Make, server: Server) -> None:
    server.topics["prices"] = (0, 40, "p1")
    with pytest.raises(DataLost, match=r"ends at offset 40, but this query has read it up to 90: .*failOnDataLoss"):
        planner().latest(at(90), None)
    with pytest.raises(DataLost, match="ends at offset 40"):
        planner().slices(at(30), at(90))
    lenient = planner(failOnDataLoss=False)
    assert lenient.slices(at(30), at(90)) == [Slice("topic:prices", 30, 40, identity="p1")]
    end = lenient.latest(at(90), None)
    assert end == at(40)
    assert lenient.slices(at(90), end) == []
    server.topics["prices"] = (0, 60, "p1")
    after = lenient.latest(end, None)
    assert lenient.slices(end, after) == [Slice("topic:prices", 40, 60, identity="p1")]


def test_a_topic_that_was_made_again_is_another_one(planner: Make, server: Server) -> None:
    server.topics["prices"] = (0, 20, "p2")
    with pytest.raises(DataLost, match=r"deleted and made again.*failOnDataLoss.*checkpointLocation"):
        planner().latest(at(90), None)
    with pytest.raises(DataLost, match="deleted and made again"):
        planner().slices(at(80), at(90))
    lenient = planner(failOnDataLoss=False)
    end = lenient.latest(at(90), None)
    assert end == at(20, "p2")
    assert lenient.slices(at(90), end) == [Slice("topic:prices", 0, 20, identity="p2")]
    assert lenient.slices(at(80), at(90)) == [], "the old one's messages are nowhere"


def test_a_topic_that_is_gone_is_told(planner: Make, server: Server) -> None:
    query, lenient = planner(), planner(failOnDataLoss=False)
    query.initial(), lenient.initial()
    del server.topics["prices"]
    with pytest.raises(DataLost, match="'prices', which this query reads, does not exist any more"):
        query.latest(at(90), None)
    assert lenient.latest(at(90), None) == at(90)


def test_a_hold_moves_with_the_query(planner: Make, server: Server) -> None:
    query = planner(groupId="nightly", startingOffsets="earliest")
    start = query.initial()
    assert server.holds == [("prices", "spark:nightly", 0)]
    end = query.latest(start, 10)
    assert len(server.holds) == 1, "nothing is committed yet"
    query.latest(end, 10)
    assert server.holds[-1] == ("prices", "spark:nightly", 10)
    query.latest(end, 10)
    assert len(server.holds) == 2
    server.now = 10_000.0
    query.latest(end, 10)
    assert len(server.holds) == 3, "one that stands still is set again before it expires"


def test_few_messages_wait(planner: Make, server: Server) -> None:
    query = planner(minOffsetsPerTrigger=50, maxTriggerDelay="60s")
    assert query.latest(at(90), 1_000) == at(90)
    server.now = 61.0
    assert query.latest(at(90), 1_000) == at(100)


def test_a_queue_is_drained_take_by_take(planner: Make, server: Server) -> None:
    server.queues["jobs"] = 25
    query = planner(subscribe="jobs")
    start = query.initial()
    assert start == {"jobs": Position("q", 0, "drain-1")}
    one = query.latest(start, 10)
    assert one == {"jobs": Position("q", 1, "drain-1")}
    assert query.slices(start, one) == [Slice("queue:jobs", 0, 10, "drain-1", 1, messages=10, identity="q")]
    assert server.finished == []
    two = query.latest(one, 10)
    assert server.finished == [1], "what is committed is acknowledged"
    assert query.slices(one, two) == [Slice("queue:jobs", 100, 110, "drain-1", 2, messages=10, identity="q")]


def test_a_query_that_starts_again_reads_the_take_it_had(planner: Make, server: Server) -> None:
    server.queues["jobs"] = 5
    start = planner(subscribe="jobs").initial()
    planner(subscribe="jobs").latest(start, 10)
    again = planner(subscribe="jobs")
    assert server.queues["jobs"] == 0
    end = again.latest(start, 10)
    assert end == {"jobs": Position("q", 1, "drain-1")}
    assert again.slices(start, end)[0].rows == 5


def test_an_empty_queue_is_no_news(planner: Make, server: Server) -> None:
    server.queues["jobs"] = 0
    query = planner(subscribe="jobs")
    start = query.initial()
    assert query.latest(start, 10) == start
    assert query.latest(start, 10) == start


def test_available_now_of_a_queue_takes_what_was_there(planner: Make, server: Server) -> None:
    server.queues["jobs"] = 15
    query = planner(subscribe="jobs")
    start = query.initial()
    query.available_now()
    server.queues["jobs"] += 1_000
    one = query.latest(start, 10)
    two = query.latest(one, 10)
    assert query.latest(two, 10) == two
    assert sum(take.messages for take in server.takes.values()) == 15


def test_what_was_read_of_a_queue_that_was_made_again_is_acknowledged(planner: Make, server: Server) -> None:
    server.queues["jobs"] = 25
    query = planner(subscribe="jobs", failOnDataLoss=False)
    position = query.initial()
    for _ in range(4):
        position = query.latest(position, 10)
    assert position == {"jobs": Position("q", 3, "drain-1")} and server.finished == [1, 2, 3]
    server.queues["jobs"], server.queue_identity, server.takes, server.finished = 5, "r", {}, []
    again = query.latest(position, 10)
    assert again == {"jobs": Position("r", 0, "drain-1")} and query.slices(position, again) == []
    taken = query.latest(again, 10)
    assert query.slices(again, taken) == [Slice("queue:jobs", 0, 5, "drain-1", 1, messages=5, identity="r")]
    assert query.slices(position, taken) == query.slices(again, taken), "takes of another queue are other takes"
    query.latest(taken, 10)
    assert server.finished == [1], "the numbers of another queue's takes say nothing"
