"""A client manager in dialogue: heartbeats, sessions, limits, breaches of the protocol."""

from __future__ import annotations

import pytest

from tocsin.client_manager.machine import Settings
from tocsin.model.errors import ProtocolError, ResourceExhausted, from_code
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.frames import FrameType, control, signal


def failure(client: ScriptedClient) -> tuple[type, bool]:
    fields = client.take(FrameType.FAILURE)[-1].fields()
    return type(from_code(fields["code"], fields["text"])), client.open


# ---- heartbeats


def beating(heartbeat: float = 2.0) -> Driver:
    return Driver(Setup(clients=Settings(heartbeat=heartbeat)))


def test_the_smaller_heartbeat_counts() -> None:
    assert beating(2.0).connect().welcome["heartbeat"] == 2.0
    client = beating(100.0).dial()
    client.send(control(FrameType.HELLO, 0, {"version": 1, "heartbeat": 7.0}))
    assert client.take(FrameType.WELCOME)[0].fields()["heartbeat"] == 7.0


@pytest.mark.parametrize("wish", [0, -5, 0.0])
def test_a_heartbeat_has_a_least(wish: float) -> None:
    client = beating(100.0).dial()
    client.send(control(FrameType.HELLO, 0, {"version": 1, "heartbeat": wish}))
    assert client.take(FrameType.WELCOME)[0].fields()["heartbeat"] > 0


def test_who_has_said_nothing_says_ping_and_who_hears_nothing_gives_up() -> None:
    driver = beating(2.0)
    client = driver.connect()
    client.session()
    driver.advance(2.5)
    assert len(client.take(FrameType.PING)) == 1
    client.send(signal(FrameType.PONG))
    driver.advance(3.5)
    assert client.open
    driver.advance(1.5)
    assert not client.open


def test_a_ping_is_answered() -> None:
    client = Driver().connect()
    client.ping()
    assert len(client.take(FrameType.PONG)) == 1


# ---- sessions


def test_sessions_are_apart() -> None:
    driver = Driver()
    client = driver.connect()
    one, two = client.session(1), client.session(2)
    assert one.producer_id != two.producer_id
    one.producer("queue:orders").send("a")
    two.producer("queue:orders").send("b")
    assert driver.show("queue:orders")["producers"] == 2
    one.close()
    assert driver.show("queue:orders")["producers"] == 1


def test_a_session_is_opened_once() -> None:
    client = Driver().connect()
    client.session(1)
    with pytest.raises(ProtocolError):
        client.session(1)


@pytest.mark.parametrize("kind", [FrameType.PUBLISH, FrameType.SETTLE, FrameType.CREDIT])
def test_a_session_that_is_not_open_ends_the_connection(kind: FrameType) -> None:
    client = Driver().connect()
    payload = bytes(64)
    client.send(len(payload).to_bytes(4, "little") + bytes([kind, 1, 0, 0]) + (9).to_bytes(4, "little") + payload)
    assert failure(client) == (ProtocolError, False)


@pytest.mark.parametrize("kind", [FrameType.WELCOME, FrameType.DELIVER, FrameType.REPLY, FrameType.HELLO])
def test_what_only_a_server_says_ends_the_connection(kind: FrameType) -> None:
    client = Driver().connect()
    client.send(control(kind, 0, {}))
    assert failure(client) == (ProtocolError, False)


@pytest.mark.parametrize("data", [b"\xff" * 12, b"\0\0\0\0\x63\1\0\0\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_frame_ends_the_connection(data: bytes) -> None:
    client = Driver().connect()
    client.send(data)
    assert failure(client) == (ProtocolError, False)


def test_a_request_that_is_no_map_ends_the_connection() -> None:
    client = Driver().connect()
    client.send((3).to_bytes(4, "little") + bytes([FrameType.REQUEST, 1, 0, 0, 0, 0, 0, 0]) + b"abc")
    assert failure(client) == (ProtocolError, False)


def test_numbers_of_sessions_producers_consumers_and_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "tocsin.client_manager.machine"
    monkeypatch.setattr(f"{module}.SESSIONS_PER_CONNECTION_MAX", 2)
    monkeypatch.setattr("tocsin.client_manager.session.PRODUCERS_PER_SESSION_MAX", 1)
    monkeypatch.setattr("tocsin.client_manager.session.CONSUMERS_PER_SESSION_MAX", 1)
    driver = Driver(Setup(clients=Settings(connections_max=1)))
    client = driver.connect()
    session = client.session(1)
    client.session(2)
    with pytest.raises(ResourceExhausted):
        client.session(3)
    session.producer("queue:one")
    with pytest.raises(ResourceExhausted):
        session.producer("queue:two")
    consumer = session.consumer("queue:one")
    with pytest.raises(ResourceExhausted):
        session.consumer("queue:two")
    consumer.close()
    session.consumer("queue:two")
    assert failure(driver.dial()) == (ResourceExhausted, False)


def test_a_consumer_that_was_refused_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.client_manager.session.CONSUMERS_PER_SESSION_MAX", 1)
    session = Driver().connect().session()
    for _ in range(3):
        with pytest.raises(Exception, match="selector"):
            session.consumer("queue:orders", selector="1 +")
    session.consumer("queue:orders")


def test_the_last_consumer_can_be_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.client_manager.session.CONSUMERS_PER_SESSION_MAX", 1)
    driver = Driver()
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders")
    driver.hang_up(client)
    driver.connect(resume=client).session(1, session).consumer("queue:orders", former=consumer)


# ---- the end


def test_a_goodbye_ends_everything_at_once_uncounted() -> None:
    driver = Driver()
    client = driver.connect()
    session = client.session()
    session.producer("queue:orders").send("one")
    session.consumer("queue:orders")
    client.goodbye()
    assert not client.open
    (message,) = driver.connect().session().consumer("queue:orders").take()
    assert (message.count, message.redelivered) == (1, False)
    assert driver.broker.clients._awaited == {}
    assert len(driver.broker.clients._registry.known) == 1


def test_nothing_is_kept_of_clients_that_came_and_went() -> None:
    driver = Driver()
    for number in range(20):
        client = driver.connect(f"client {number}")
        session = client.session()
        session.consumer("topic:news")
        session.producer("topic:news").send("x")
        client.request("temporary.create", kind="topic")
        if number % 2:
            client.goodbye()
        else:
            driver.hang_up(client)
    driver.advance(10)
    registry, manager = driver.broker.clients._registry, driver.manager
    assert (registry.known, registry.sessions, registry.connections, registry.producers) == ({}, {}, {}, 0)
    assert (registry._client_ids, driver.broker.clients._awaited) == ({}, {})
    assert (len(manager.attachments.by_key), manager.sessions.known, manager.attachments.opening) == (0, {}, {})
    assert [state.address.name for state in manager.directory] == ["_DMQ", "news"]


def test_a_server_that_stops_says_so_and_lets_nobody_in() -> None:
    driver = Driver()
    client = driver.connect()
    driver.broker.clients.drain()
    driver.settle()
    assert len(client.take(FrameType.GOODBYE)) == 1
    stranger = driver.dial()
    stranger.send(control(FrameType.HELLO, 0, {"version": 1}))
    assert not stranger.open


def test_an_answer_for_a_client_that_left_is_dropped() -> None:
    driver = Driver()
    client = driver.connect()
    with driver.slow_disk():
        client.ask("destination.create", destination="queue:orders")
        driver.hang_up(client)
    assert driver.broker.clients._awaited == {}
    assert driver.show("queue:orders")["messages"] == 0
