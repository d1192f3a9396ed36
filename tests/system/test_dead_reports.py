"""Messages that a client reports as dead, through stages: on one server, and on a cluster of several groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.clusters import ClusterProcesses
from tests.system.processes import PATIENCE, until

import tocsin
from tocsin import errors
from tocsin.client.staging import StagedColumns, StageReceipt
from tocsin.model.batch import BodyKind, Column, ColumnData
from tocsin.model.columns import bytes_column, value_column
from tocsin.model.values import Int, Type

ORIGIN, REASON, ATTEMPTS, OFFSET = (f"JMS_tocsin_{name}" for name in ("origin", "reason", "attempts", "offset"))


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[tocsin.Connection]:
    with tocsin.Server(tmp_path) as server, tocsin.connect(server.url) as connection:
        yield connection


def text(name: str, values: list[str | None]) -> ColumnData:
    return value_column(Column.PROPERTY, Type.STRING, name, values)


def columns(bodies: list[bytes], *properties: ColumnData) -> StagedColumns:
    return StagedColumns(len(bodies), BodyKind.BYTES, [bytes_column(Column.BODY, bodies), *properties])


def report(origin: str, bodies: list[bytes], reason: str = "not JSON") -> StagedColumns:
    many = len(bodies)
    numbers = value_column(Column.PROPERTY, Type.INT, ATTEMPTS, [Int(1)] * many)
    where = value_column(Column.PROPERTY, Type.LONG, OFFSET, list(range(many)))
    return columns(bodies, text(ORIGIN, [origin] * many), text(REASON, [reason] * many), numbers, where)


def stage(connection: tocsin.Connection, origin: str, content: StagedColumns) -> StageReceipt:
    with connection.session() as session:
        staged = session.stage(f"queue:_DMQ:{origin}")
        staged.append(content)
        return staged.close()


def dead(connection: tocsin.Connection) -> list[tocsin.Message]:
    with connection.session() as session, session.browser(session.queue("_DMQ")) as browser:
        return list(browser)


def test_a_report_is_seen_when_it_is_committed_and_goes_back_like_any_dead_message(
    connection: tocsin.Connection,
) -> None:
    connection.create_destination("prices", "topic", retained=True)
    connection.create_destination("clean", "topic", retained=True)
    reported = stage(connection, "topic:prices", report("topic:prices", [b"{", b"<"]))
    with connection.session() as session:
        results = session.stage("topic:clean")
        results.append(columns([b"good"]))
        clean = results.close()
    assert dead(connection) == []
    # Results and reports are one commit, once.
    assert connection.commit_stages("job", 1, [clean, reported]) is True
    assert connection.commit_stages("job", 1, [clean, reported]) is False
    found = dead(connection)
    assert [(bytes(each.body), each.properties[REASON], each.properties[ATTEMPTS]) for each in found] == [
        (b"{", "not JSON", 1),
        (b"<", "not JSON", 1),
    ]
    assert {str(each.destination) for each in found} == {"queue:_DMQ"}
    first = found[0].offset
    assert first is not None
    assert connection.resend_dead([(first, first + 1)]) == 1
    with connection.session() as session:
        back = session.replay(session.topic("prices"), start="earliest").receive(timeout=PATIENCE)
    assert back is not None and bytes(back.body) == b"{"
    assert not [name for name in back.properties if name.startswith("JMS_tocsin_")]
    assert [bytes(each.body) for each in dead(connection)] == [b"<"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (columns([b"x"]), "needs the property JMS_tocsin_origin"),
        (columns([b"x"], text(ORIGIN, ["topic:prices"])), "needs the property JMS_tocsin_reason"),
        (columns([b"x", b"y"], text(ORIGIN, ["topic:prices", None]), text(REASON, ["a", "b"])), "JMS_tocsin_origin"),
        (report("topic:other", [b"x"]), "must all name it as their origin"),
    ],
)
def test_a_report_needs_its_notes(connection: tocsin.Connection, content: StagedColumns, complaint: str) -> None:
    with pytest.raises(errors.AccessDenied, match=complaint):
        stage(connection, "topic:prices", content)
    # The connection is none the worse for it.
    assert stage(connection, "topic:prices", report("topic:prices", [b"x"])).messages == 1


def test_only_stages_get_there(connection: tocsin.Connection) -> None:
    with connection.session() as session:
        with pytest.raises(errors.AccessDenied):
            session.producer(session.queue("_DMQ")).send("x")
        with pytest.raises(errors.AccessDenied):
            session.stage("queue:_DMQ")
        for origin in ("queue:_DMQ", "topic:_LOG", "queue:_TMP.1"):
            with pytest.raises(errors.AccessDenied, match="can't be reported as dead"):
                session.stage(f"queue:_DMQ:{origin}")
        with pytest.raises(errors.InvalidDestination):
            session.stage("queue:_DMQ:prices")
        with pytest.raises(errors.InvalidDestination):
            session.stage("topic:_DMQ:topic:prices")


def test_nobody_consumes_or_publishes_by_such_a_name(connection: tocsin.Connection) -> None:
    with connection.session() as session:
        name = "_DMQ:topic:prices"
        with pytest.raises(errors.TocsinError):
            session.producer(session.queue(name)).send("x")
        with pytest.raises(errors.InvalidDestination):
            session.consumer(session.queue(name))
    assert dead(connection) == []


def test_a_session_reports_for_one_destination(connection: tocsin.Connection) -> None:
    with connection.session() as session:
        session.stage("queue:_DMQ:topic:a").close()
        session.stage("queue:_DMQ:topic:a").close()
        with pytest.raises(errors.IllegalState, match="one destination only"):
            session.stage("queue:_DMQ:topic:b")


LARGE_BYTES = 100_000


@pytest.fixture
def two_groups(tmp_path: Path) -> Iterator[tocsin.Connection]:
    """A cluster whose next destination goes to the group that does not have the topic `large`."""
    shape = ("--client-managers", "1", "--groups", "2", "--members", "1")
    with ClusterProcesses(tmp_path / "cluster", *shape) as cluster, tocsin.connect(cluster.url) as connection:
        connection.create_destination("large", "topic", retained=True)
        with connection.session() as session:
            session.producer(session.topic("large")).send(bytes(LARGE_BYTES))

        def is_known() -> bool:
            return any(group["live_bytes"] > LARGE_BYTES for group in connection.cluster_status()["groups"])

        until(is_known, "the client manager knows which group has more")
        yield connection


def test_in_a_cluster_reports_are_where_their_origin_is(two_groups: tocsin.Connection) -> None:
    names = ["large", "small"]
    two_groups.create_destination("small", "topic", retained=True)
    receipts = [stage(two_groups, f"topic:{name}", report(f"topic:{name}", [name.encode()])) for name in names]
    assert two_groups.commit_stages("job", 1, receipts) is True
    found = dead(two_groups)
    assert sorted(bytes(each.body).decode() for each in found) == names
    # Both groups have some of them: the offsets of each begin elsewhere.
    assert len({each.offset >> 44 for each in found if each.offset is not None}) == 2
    places = [(each.offset, each.offset + 1) for each in found if each.offset is not None]
    assert two_groups.resend_dead(places) == len(names)
    for name, start in (("large", 1), ("small", 0)):
        with two_groups.session() as session:
            back = session.replay(session.topic(name), start=start).receive(timeout=PATIENCE)
        assert back is not None and bytes(back.body).decode() == name
