"""Which offsets a destination has, and where a range of them may be cut."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.message_manager.dialogue import server, session_of, state_of
from tests.message_manager.effort import steps_of

from tocsin.journal.stream import StreamPart
from tocsin.message_manager.destination import DestinationState, Options
from tocsin.message_manager.offsets import cut, files_of
from tocsin.model.destination import parse_destination
from tocsin.model.errors import DataLost, InvalidDestination, ProtocolError
from tocsin.model.identity import Offset
from tocsin.model.limits import CUTS_MAX
from tocsin.testing.driver import Driver

NEWS = "topic:news"


def retained(driver: Driver) -> None:
    driver.connect().request("destination.create", destination=NEWS, retained=True)


def state_with(counts: list[int], dropped: int = 0) -> DestinationState:
    state = DestinationState(1, parse_destination(NEWS), Options(retained=True), None)
    for lsn, count in enumerate(counts, 1):
        state.log.append(lsn, count, 100, 4, 0, 0, 0, 0)
    state.log.drop_front(dropped)
    return state


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 20), st.data())
def test_cuts_rise_and_lie_between_batches(counts: list[int], parts: int, data: st.DataObject) -> None:
    state = state_with(counts, data.draw(st.integers(0, len(counts))))
    total = sum(counts)
    start = data.draw(st.integers(0, total))
    end = data.draw(st.integers(start, total))
    cuts = cut(state, start, end, parts)
    assert cuts[0] == start and cuts[-1] == end and len(cuts) <= parts + 1
    assert all(low < high for low, high in pairwise(cuts)) or cuts == [start, start]
    assert all(each in state.log.firsts for each in cuts[1:-1])


def test_parts_are_about_equal_where_batches_are_small() -> None:
    cuts = cut(state_with([10] * 100), 5, 1_000, 4)
    assert cuts == [5, 250, 500, 750, 1_000]


def test_a_batch_is_never_cut() -> None:
    assert cut(state_with([1_000]), 0, 1_000, 8) == [0, 1_000]
    assert cut(state_with([10, 1_000, 10]), 0, 1_020, 3) in ([0, 10, 1_010, 1_020], [0, 10, 1_020], [0, 1_010, 1_020])


def test_a_client_asks_for_cuts() -> None:
    driver = server()
    retained(driver)
    producer = session_of(driver).producer(NEWS)
    for _ in range(4):
        producer.send(*"abc")
    client = driver.connect()
    assert client.request("offset.cuts", destination=NEWS, start=0, end=12, parts=2)["cuts"] == [0, 6, 12]
    assert client.request("offset.cuts", destination=NEWS, start=7, end=7, parts=2)["cuts"] == [7, 7]


@pytest.mark.parametrize("fields", [{"start": 5, "end": 1}, {"parts": 0}, {"parts": CUTS_MAX + 1}, {"start": -1}])
def test_nonsense_is_refused(fields: dict[str, int]) -> None:
    driver = server()
    retained(driver)
    asked: dict[str, Any] = {"destination": NEWS, "start": 0, "end": 1, "parts": 2} | fields
    with pytest.raises(ProtocolError):
        driver.connect().request("offset.cuts", **asked)


def test_the_range_of_a_topic_and_of_a_queue() -> None:
    driver = server()
    retained(driver)
    session = session_of(driver)
    session.producer(NEWS).send(*"abc")
    session.producer("queue:orders").send("a")
    client = driver.connect()
    found = client.request("offset.range", destination=NEWS)
    assert (found["first"], found["end"], found["retained"]) == (0, 3, True)
    assert (found["earliest"], found["latest"]) == (0, 3)
    assert client.request("offset.range", destination="queue:orders")["retained"] is False


def test_identity_is_kept_by_a_restart_and_changed_by_a_new_life_of_the_name() -> None:
    driver = server()
    retained(driver)
    before = state_of(driver, NEWS).identity
    driver.storage.begin_snapshot()
    driver.settle()
    driver = driver.crash()
    client = driver.connect()
    assert client.request("offset.range", destination=NEWS)["identity"] == before
    client.request("destination.delete", destination=NEWS)
    retained(driver)
    after = client.request("offset.range", destination=NEWS)["identity"]
    assert after != before
    assert driver.crash().connect().request("offset.range", destination=NEWS)["identity"] == after


def test_offsets_of_another_destination_of_the_name_are_refused() -> None:
    """Whether it was made again here, or is another cluster's: its identity is another one."""
    driver = server()
    retained(driver)
    session = session_of(driver)
    session.producer(NEWS).send(*"abc")
    client = driver.connect()
    known = client.request("offset.range", destination=NEWS)["identity"]
    reader = session.consumer(NEWS, mode="replay", start={"offset": 0, "identity": known})
    assert reader.bodies() == ["a", "b", "c"]
    reader.close()
    client.request("destination.delete", destination=NEWS)
    retained(driver)
    session_of(driver).producer(NEWS).send(*"xyz")
    for start in ({"offset": 1}, {"offset": 1, "end": 3}):
        with pytest.raises(DataLost, match="not the one that these offsets are of"):
            session.consumer(NEWS, mode="replay", start={**start, "identity": known})
    with pytest.raises(DataLost):
        session.consumer(NEWS, start={"offset": 1, "identity": known})
    for operation, fields in (
        ("offset.at", {"time_ms": 0}), ("offset.cuts", {"start": 0, "end": 3, "parts": 2}),
        ("offset.files", {"start": 0, "end": 3}), ("hold.set", {"name": "me", "offset": 0, "seconds": 60}),
    ):  # fmt: skip
        client.request(operation, destination=NEWS, **fields)
        with pytest.raises(DataLost):
            client.request(operation, destination=NEWS, identity=known, **fields)


def test_servers_give_topics_of_the_same_name_and_age_different_identities() -> None:
    """Here as made in the same millisecond, by a clock that both share; only their journals differ."""
    first, second = server(), server()
    second.manager.directory.cluster = "f" * 32
    for driver in (first, second):
        retained(driver)
    found = [driver.connect().request("offset.range", destination=NEWS)["identity"] for driver in (first, second)]
    assert found[0] != found[1] and found[0].split("-")[:2] == found[1].split("-")[:2]
    second.snapshot()
    again = second.crash().connect().request("offset.range", destination=NEWS)["identity"]
    assert again == found[1], "it is noted with the topic"


class Files:
    """One file for every ten offsets, and never more than three at once."""

    journal_id = b"j" * 16

    def parts(self, stream_id: int, start: int, end: int) -> list[StreamPart]:
        cuts = [start, *range(start // 10 * 10 + 10, end, 10), end]
        return [
            StreamPart(f"{stream_id}/{low // 10}", Offset(low), Offset(high), 80, 1_000)
            for low, high in pairwise(cuts[:4])
        ]


def stored(stream_end: int, visible_end: int = 100) -> DestinationState:
    state = state_with([10] * 10, dropped=2)
    state.stream_end, state.visible_end = stream_end, visible_end
    return state


def test_files_are_told_as_far_as_they_go() -> None:
    found = files_of(stored(60), 35, 90, Files())
    assert (found["journal"], found["stream"], found["more"]) == (b"j" * 16, 1, False)
    assert [(each["path"], each["first"], each["end"]) for each in found["files"]] == [
        ("1/3", 35, 40),
        ("1/4", 40, 50),
        ("1/5", 50, 60),
    ]
    assert found["files"][0]["position"] == 80 and found["files"][0]["bytes"] == 1_000


def test_who_gets_not_all_files_at_once_is_told_that_there_are_more() -> None:
    found = files_of(stored(100), 20, 100, Files())
    assert found["files"][-1]["end"] == 50 and found["more"]


def test_only_what_may_be_seen_is_told() -> None:
    assert files_of(stored(60, visible_end=42), 35, 90, Files())["files"][-1]["end"] == 42


@pytest.mark.parametrize(("start", "end"), [(19, 60), (60, 90), (40, 40)])
def test_nothing_is_told_of_what_is_gone_or_not_in_files_yet(start: int, end: int) -> None:
    assert files_of(stored(60), start, end, Files())["files"] == []


def test_nothing_is_told_of_others_than_retained_topics_or_without_files() -> None:
    state = stored(60)
    assert files_of(state, 20, 60, None)["files"] == []
    state.options = Options()
    assert files_of(state, 20, 60, Files())["files"] == []


def test_paths_are_told_on_the_same_host_only() -> None:
    """A client may claim to be here; the end of its connection decides, and that of a client manager elsewhere."""
    driver = server()
    retained(driver)
    session_of(driver).producer(NEWS).send(*"abc")
    manager = driver.manager
    manager.ledger.stream_files = Files()
    state_of(driver, NEWS).stream_end = 3
    manager.directory.host = driver.broker.clients._settings.host = "this one"
    asked: dict[str, Any] = {"destination": NEWS, "start": 0, "end": 3}
    far, near = driver.connect(), driver.connect()
    driver.broker.clients._registry.connections[near.number].host = "this one"
    assert far.request("offset.files", **asked)["files"] == []
    assert far.request("offset.files", host="this one", **asked)["files"] == []
    assert len(near.request("offset.files", **asked)["files"]) == 1
    manager.directory.host = "another one, where the group's primary is"
    assert near.request("offset.files", **asked)["files"] == []


def test_a_client_asks_for_files_of_a_server_that_has_none() -> None:
    driver = server()
    retained(driver)
    session_of(driver).producer(NEWS).send(*"abc")
    client = driver.connect()
    assert client.request("offset.files", destination=NEWS, start=0, end=3)["files"] == []
    with pytest.raises(InvalidDestination):
        client.request("offset.files", destination="topic:nothing", start=0, end=3)


def test_more_parts_than_there_are_batches_cost_no_more() -> None:
    for counts in ([], [10] * 5):
        state = state_with(counts)
        few, many = (steps_of(partial(cut, state, 0, sum(counts), parts)) for parts in (10, CUTS_MAX))
        assert few == many
        assert cut(state, 0, sum(counts), CUTS_MAX) == [0, *range(10, sum(counts), 10), sum(counts)]
