"""How long operations wait for a server that is there and does not answer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.client.dialogue import QUEUE, TOPIC, Dialogue
from tests.client.fake_server import FakeServer
from tests.client.test_core_reading import opened
from tests.client.test_staging import content

from tocsin.client import operations, reading
from tocsin.client.core_reading import RangeBlock
from tocsin.client.patience import asking, check_time, wait_until
from tocsin.client.pending import OpenEnded, Pending, Steps
from tocsin.client.sync import connect
from tocsin.model.errors import ConnectionFailed, IllegalState, InvalidDestination, TimedOut

LIMIT = 0.1


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


def online(answer_timeout: float | None = None) -> Dialogue:
    dialogue = Dialogue(answer_timeout=answer_timeout)
    dialogue.login()
    return dialogue


# The limits themselves.


def test_each_answer_has_the_whole_time_and_an_operation_its_own() -> None:
    core = online(answer_timeout=5.0).core
    assert wait_until(core, Pending(), None, 100.0) == 105.0
    assert wait_until(core, Pending(), None, 104.0) == 109.0
    assert wait_until(core, Pending(), 107.0, 104.0) == 107.0
    assert wait_until(core, Pending(), 200.0, 104.0) == 109.0


def test_what_no_server_owes_has_no_limit() -> None:
    core = online(answer_timeout=5.0).core
    assert wait_until(core, OpenEnded(), None, 100.0) is None
    assert wait_until(core, OpenEnded(), 200.0, 100.0) == 200.0
    assert wait_until(online().core, Pending(), None, 100.0) is None


def test_the_time_of_the_operation_is_told_from_that_of_an_answer() -> None:
    core = online(answer_timeout=5.0).core
    with pytest.raises(TimedOut, match="no answer within 7 s"):
        check_time(core, 107.0, 7.0, 107.0)
    with pytest.raises(TimedOut, match=r"Nothing has come for 5 s: .* no primary \(see `tocsin cluster status`\)"):
        check_time(core, 107.0, 7.0, 105.0)
    with pytest.raises(TimedOut, match="no answer within 7 s"):
        # A timer may ring a little early.
        check_time(online().core, 107.0, 7.0, 106.999)


def test_a_server_that_cannot_be_reached_is_the_affair_of_the_reconnect() -> None:
    check_time(Dialogue(answer_timeout=5.0).core, None, None, 105.0)


# Who is named.


def fail_with_silence(steps: Steps[object]) -> str:
    next(steps)
    with pytest.raises(TimedOut) as caught:
        steps.throw(TimedOut("Nothing has come."))
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"destination": "topic:prices", "start": 0}, "topic:prices"),
        ({"app": "a", "destinations": ["topic:a", "topic:b"]}, "topic:a, topic:b"),
        ({"stages": [{"destination": "topic:a"}, {"destination": "topic:a"}]}, "topic:a"),
        ({"destinations": ["a", "b", "c", "d", "e"]}, "a, b, c or one of 2 others"),
        ({"prefix": "prices"}, "The server"),
    ],
)
def test_a_request_names_whom_it_asks(fields: dict[str, object], named: str) -> None:
    steps = operations.request(online().core, 0, "some.op", fields)
    assert fail_with_silence(steps) == f"{named} does not answer. Nothing has come."


def test_only_waits_in_vain_are_renamed() -> None:
    with pytest.raises(InvalidDestination, match=r"^gone$"), asking(TOPIC):
        raise InvalidDestination("gone")


# Ranges.


def test_a_range_without_a_selector_fails_when_no_block_comes() -> None:
    _, state = opened()
    assert fail_with_silence(reading.next_block(state)) == "topic:prices does not answer. Nothing has come."


def after_silence() -> tuple[Dialogue, Steps[RangeBlock | None], int]:
    """A reader with a selector whose wait was in vain; the number of the consumer."""
    dialogue, state = opened(selector="price > 9")
    steps = reading.next_block(state)
    next(steps)
    steps.throw(TimedOut("Nothing has come."))
    return dialogue, steps, state.number


def test_a_range_whose_selector_matches_nothing_asks_whether_the_server_lives() -> None:
    dialogue, steps, _ = after_silence()
    (asked,) = dialogue.requests()
    assert (asked["op"], asked["destination"]) == ("offset.range", "topic:prices")
    ready = steps.send({"first": 0, "end": 100, "identity": "i", "retained": True})
    assert not ready.done, "it waits for the next block again"


def test_a_refusal_is_an_answer_too() -> None:
    _, steps, _ = after_silence()
    assert not steps.throw(InvalidDestination("has no offsets")).done


def test_a_selector_does_not_help_a_server_that_is_silent() -> None:
    _, steps, _ = after_silence()
    with pytest.raises(TimedOut, match=r"^topic:prices does not answer\. Nothing again\.$"):
        steps.throw(TimedOut("Nothing again."))


# On a socket.


def test_a_question_without_an_answer_ends(server: FakeServer) -> None:
    server.unanswered.add("offset.range")
    with connect(server.url, answer_timeout=LIMIT) as connection:
        with pytest.raises(TimedOut, match=r"topic:prices does not answer\. Nothing has come for 0\.1 s"):
            connection.offsets(TOPIC)
        assert not connection.is_lost


def test_a_reader_whose_blocks_stay_away_ends(server: FakeServer) -> None:
    with connect(server.url, answer_timeout=LIMIT) as connection, connection.session() as session:
        reader = session.read_range(TOPIC, 0, 10)
        assert reader._state is not None
        server.deliver(reader._state.number, ["a", "b"])
        assert next(reader).messages == 2
        with pytest.raises(TimedOut, match="topic:prices does not answer"):
            next(reader)


def test_a_stage_whose_blocks_are_not_confirmed_ends_and_can_be_abandoned(server: FakeServer) -> None:
    server.confirming = False
    connection = connect(server.url, answer_timeout=LIMIT)
    session = connection.session()
    stage = session.stage(TOPIC)
    stage.append(content(b"a"))
    with pytest.raises(TimedOut, match="topic:prices does not answer"):
        stage.close()
    connection.abandon()
    connection.abandon()
    session.close()
    assert connection.is_closed
    with pytest.raises(IllegalState, match="connection is closed"):
        connection.offsets(TOPIC)


def test_waiting_for_messages_has_no_limit_of_this_kind(server: FakeServer) -> None:
    with connect(server.url, answer_timeout=0.01) as connection, connection.session() as session:
        consumer = session.consumer(QUEUE)
        began = time.monotonic()
        assert consumer.receive(timeout=0.2) is None
        assert time.monotonic() - began >= 0.2


def test_a_server_that_is_gone_is_reported_as_that() -> None:
    with FakeServer() as server:
        connection = connect(server.url, answer_timeout=0.02, reconnect_timeout=0.3)
    with pytest.raises(ConnectionFailed, match=r"No connection has worked for 0\.3 s"):
        connection.offsets(TOPIC)
    connection.close()
