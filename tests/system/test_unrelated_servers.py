"""A list of hosts with two unrelated servers in it: what is bound to offsets never goes on at the other one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.system.processes import PATIENCE

import tocsin
from tocsin.errors import DataLost, IllegalState
from tocsin.model.limits import RANGE_BUFFER_BYTES_MIN

MESSAGES = 40
BODY = 10_000
"""Much more than a reader is sent ahead, so that the rest must come after the change of servers."""


class Pair:
    """Both have the topic `prices` and the queue `jobs`, and messages at the same offsets."""

    def __init__(self, folder: Path) -> None:
        self.servers = [tocsin.Server(folder / name).start() for name in ("one", "two")]
        for server in self.servers:
            with tocsin.connect(server.url) as connection, connection.session() as session:
                connection.create_destination("prices", "topic", retained=True)
                for where in (session.topic("prices"), session.queue("jobs")):
                    body = f"{self.servers.index(server)}" * BODY
                    session.producer(where).send_many([body] * MESSAGES)
                    for _ in range(MESSAGES // 10):
                        session.producer(where).send(body)

    @property
    def url(self) -> str:
        first, second = (server.url.removeprefix("tocsin://") for server in self.servers)
        return f"tocsin://{first},{second}"

    def lose_first(self) -> None:
        self.servers[0].stop()

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.stop()


def test_a_range_does_not_go_on_at_another_server(pair: Pair) -> None:
    with tocsin.connect(pair.url) as connection, connection.session() as session:
        first, end = connection.offset_range("topic:prices")
        wanted = {"prefetch_bytes": RANGE_BUFFER_BYTES_MIN, "local": False}
        with session.read_range("topic:prices", first, end, **wanted) as reader:  # type: ignore[arg-type]
            next(reader)
            pair.lose_first()
            with pytest.raises(DataLost, match="another cluster"):
                list(reader)


def test_a_replay_does_not_go_on_at_another_server(pair: Pair) -> None:
    with tocsin.connect(pair.url) as connection, connection.session() as session:
        replay = session.replay(session.topic("prices"), prefetch=2)
        message = replay.receive(timeout=PATIENCE)
        assert message is not None and str(message.body).startswith("0")
        pair.lose_first()
        with pytest.raises(DataLost, match="another cluster"):
            while (message := replay.receive(timeout=PATIENCE)) is not None:
                assert str(message.body).startswith("0"), "a message of the other server"


def test_a_consumer_that_began_at_an_offset_does_not_begin_there_again(pair: Pair) -> None:
    with tocsin.connect(pair.url) as connection, connection.session() as session:
        consumer = session.consumer(session.topic("prices"), start=3, prefetch=2)
        assert consumer.receive(timeout=PATIENCE) is not None
        pair.lose_first()
        with pytest.raises(DataLost, match="another cluster"):
            while (message := consumer.receive(timeout=PATIENCE)) is not None:
                assert str(message.body).startswith("0"), "a message of the other server"


def test_what_was_planned_at_one_server_is_refused_by_another(pair: Pair) -> None:
    first, second = (tocsin.connect(server.url) for server in pair.servers)
    with first, second, second.session() as session:
        planned = first.offsets("topic:prices")
        assert planned.identity != second.offsets("topic:prices").identity
        known = {"identity": planned.identity}
        with pytest.raises(DataLost):
            session.read_range("topic:prices", 0, 5, **known)  # type: ignore[arg-type]
        with pytest.raises(DataLost):
            session.read_range("topic:prices", 0, 5, local=True, **known)  # type: ignore[arg-type]
        with pytest.raises(DataLost):
            second.offset_at("topic:prices", 0, **known)
        with pytest.raises(DataLost):
            second.offset_cuts("topic:prices", 0, 5, 2, **known)
        with pytest.raises(DataLost):
            second.hold("topic:prices", "me", 3, 60, **known)
        assert session.read_range("topic:prices", 0, 5) is not None


def test_a_drain_does_not_go_on_at_another_server(pair: Pair) -> None:
    with tocsin.connect(pair.url) as connection:
        known = connection.offsets("queue:jobs").identity
        assert connection.drain_take("queue:jobs", "job", 0, messages=5, identity=known).messages == 5
        pair.lose_first()
        with pytest.raises(DataLost, match="another cluster"):
            connection.drain_take("queue:jobs", "job", 1, messages=5, identity=known)
        with pytest.raises(DataLost, match="another cluster"):
            connection.drain_finish("queue:jobs", "job", 1, identity=known)
        with pytest.raises(DataLost, match="another cluster"):
            connection.drain_list("queue:jobs", "job", identity=known)
        with pytest.raises(DataLost, match="another cluster"):
            connection.drain_release("queue:jobs", "job", identity=known)


def test_a_stage_of_one_server_is_nothing_to_another(pair: Pair) -> None:
    first, second = (tocsin.connect(server.url) for server in pair.servers)
    with first, second, first.session() as session:
        receipt = replace(session.stage("topic:prices").close(), messages=1)
        before = second.offsets("topic:prices").end
        with pytest.raises(IllegalState, match="is not there"):
            second.commit_stages("job", 1, [receipt])
        assert second.offsets("topic:prices").end == before
