"""Whatever a client sends, the server says what is wrong, ends that connection alone, and lives."""

from __future__ import annotations

import random
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.system.processes import HOST, PATIENCE, ServerProcess
from tests.system.raw import PRODUCER, SESSION, RawClient

import tocsin
from tocsin import errors
from tocsin.model.batch import ENTRY
from tocsin.model.batch import HEADER as BLOCK_HEADER
from tocsin.model.destination import Kind
from tocsin.model.limits import DESTINATION_NAME_BYTES_MAX, FRAME_BYTES_BEFORE_LOGIN
from tocsin.wire.frames import HEADER, VERSION, Credit, FrameType, control, signal, write_credit

LOGIN_SECONDS = 0.5
MESSAGE_BYTES = 64 * 1024


@pytest.fixture(scope="module")
def server_settings() -> dict[str, object]:
    return {"login_s": LOGIN_SECONDS, "max_message_bytes": MESSAGE_BYTES}


@pytest.fixture(autouse=True)
def neighbour(server: ServerProcess) -> Iterator[RawClient]:
    """Another client, which could not heal its connection: it must work before and after."""
    with RawClient(server.port) as client:
        client.open_producer("neighbour")
        client.publish(client.block("neighbour", ["before"], 1))
        assert client.next_confirm() == 1
        yield client
        client.publish(client.block("neighbour", ["after"], 2))
        assert client.next_confirm() == 2
    server.check_log()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[RawClient]:
    with RawClient(server.port) as connected:
        yield connected


@pytest.fixture
def session(server: ServerProcess) -> Iterator[tocsin.Session]:
    with tocsin.connect(server.url) as connection, connection.session() as opened:
        yield opened


# Before the login.


def test_text_of_another_protocol(client: RawClient) -> None:
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert isinstance(client.refusal(), errors.ProtocolError)


@pytest.mark.parametrize("seed", range(5))
def test_garbage(client: RawClient, seed: int) -> None:
    client.send(random.Random(seed).randbytes(2_000))
    assert isinstance(client.refusal(), errors.ProtocolError)


def test_a_large_frame_is_refused_by_its_header_alone(client: RawClient) -> None:
    client.send(HEADER.pack(FRAME_BYTES_BEFORE_LOGIN + 1, FrameType.HELLO, VERSION, 0, 0))
    assert str(FRAME_BYTES_BEFORE_LOGIN) in str(client.refusal())


def test_the_largest_length_that_can_be_written(client: RawClient) -> None:
    client.login()
    client.send(HEADER.pack(2**32 - 1, FrameType.PUBLISH, VERSION, 0, SESSION))
    assert "4294967295" in str(client.refusal())


def test_an_unknown_frame_type(client: RawClient) -> None:
    client.send(HEADER.pack(0, 99, VERSION, 0, 0))
    assert "99" in str(client.refusal())


def test_another_version_is_named_with_ours(client: RawClient) -> None:
    client.send(HEADER.pack(0, FrameType.HELLO, VERSION + 1, 0, 0))
    said = str(client.refusal())
    assert f"version {VERSION + 1}" in said and f"speaks {VERSION}" in said


def test_a_frame_that_comes_too_early(client: RawClient) -> None:
    client.send(control(FrameType.REQUEST, 0, {"id": 1, "op": "destination.list"}))
    assert isinstance(client.refusal(), errors.ProtocolError)


def test_a_hello_that_is_no_map(client: RawClient) -> None:
    client.send(HEADER.pack(8, FrameType.HELLO, VERSION, 0, 0) + b"\xff" * 8)
    assert isinstance(client.refusal(), errors.ProtocolError)


def test_a_login_byte_by_byte_ends_in_time(server: ServerProcess) -> None:
    hello = control(FrameType.HELLO, 0, {"version": VERSION, "product": "x" * 3_000})
    began = time.monotonic()
    with socket.create_connection((HOST, server.port), PATIENCE) as slow:
        slow.settimeout(0.02)
        for position in range(len(hello) - 1):
            try:
                slow.sendall(hello[position : position + 1])
                said = slow.recv(1_000)
            except TimeoutError:
                continue
            except ConnectionError:
                said = b""
            break
        else:
            pytest.fail("the server waited for all of a login that took a minute")
    assert LOGIN_SECONDS <= time.monotonic() - began < LOGIN_SECONDS + 5
    assert not said or b"longer than" in said


def test_a_connection_that_says_nothing_ends_in_time(client: RawClient) -> None:
    assert isinstance(client.refusal(), errors.AuthenticationFailed)


def test_a_stolen_token_resumes_nothing(client: RawClient, neighbour: RawClient) -> None:
    forged = bytes(len(neighbour.token))
    client.hello(resume={"connection": neighbour.connection, "token": forged})
    welcome = client.expect(FrameType.WELCOME)
    assert not welcome["resumed"] and welcome["connection"] != neighbour.connection


# After the login.


@pytest.mark.parametrize("kind", [FrameType.WELCOME, FrameType.CONFIRM, FrameType.HELLO, FrameType.DELIVER])
def test_a_frame_that_only_servers_send(client: RawClient, kind: FrameType) -> None:
    client.login()
    client.send(HEADER.pack(0, kind, VERSION, 0, 0))
    assert kind.name in str(client.refusal())


@pytest.mark.parametrize("kind", [FrameType.PUBLISH, FrameType.CREDIT, FrameType.SETTLE])
def test_a_frame_that_is_cut_off(client: RawClient, kind: FrameType) -> None:
    client.open_producer("cut-off")
    client.send(HEADER.pack(3, kind, VERSION, 0, SESSION) + b"abc")
    assert isinstance(client.refusal(), errors.ProtocolError)


def test_a_settlement_with_more_ranges_than_bytes(client: RawClient) -> None:
    client.open_producer("settled")
    payload = struct.pack("<IBBHQII", 1, 1, 0, 0, 1, 0, 2**31)
    client.send(HEADER.pack(len(payload), FrameType.SETTLE, VERSION, 0, SESSION) + payload)
    assert isinstance(client.refusal(), errors.ProtocolError)


def test_a_session_that_is_not_open(client: RawClient) -> None:
    client.login()
    client.send(write_credit(7, Credit(1, 10, 10)))
    assert "Session 7" in str(client.refusal())


def _flip(block: bytes, position: int) -> bytes:
    return block[:position] + bytes([block[position] ^ 1]) + block[position + 1 :]


def _lie(block: bytes, position: int, value: int) -> bytes:
    """Another 32 bit number in a block, with a CRC that agrees."""
    changed = block[:position] + value.to_bytes(4, "little") + block[position + 4 :]
    return changed[:4] + zlib.crc32(changed[8:]).to_bytes(4, "little") + changed[8:]


_DIRECTORY = BLOCK_HEADER.size + len("blocks")
_MALFORMED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda block: b"",
    "half": lambda block: block[: len(block) // 2],
    "a flipped bit in the last body": lambda block: _flip(block, len(block) - 1),
    "a flipped bit in the header": lambda block: _flip(block, 64),
    "a longer length": lambda block: _lie(block, 8, len(block) + 8),
    "more messages than the columns have": lambda block: _lie(block, 12, 16_000),
    "no messages": lambda block: _lie(block, 12, 0),
    "a column behind the end": lambda block: _lie(block, _DIRECTORY + 12, len(block) + 64),
    "offsets over the header": lambda block: _lie(block, _DIRECTORY + 8, 8),
    "a column of four gigabytes": lambda block: _lie(block, _DIRECTORY + 16, 2**32 - 1),
}


@pytest.mark.parametrize("damage", _MALFORMED)
def test_a_malformed_batch(client: RawClient, damage: str) -> None:
    assert ENTRY.size == 20, "the positions above are those of this layout"
    client.open_producer("blocks")
    client.publish(_MALFORMED[damage](client.block("blocks", ["one", "two"])))
    assert isinstance(client.refusal(), errors.ProtocolError)


@pytest.mark.parametrize(
    "change",
    [
        {"producer_id": b"p" * 16},
        {"connection_id": b"c" * 16},
        {"destination": "elsewhere"},
        {"destination": "_DMQ"},
        {"destination_kind": Kind.TOPIC},
    ],
    ids=str,
)
def test_a_batch_in_the_name_of_somebody_else(client: RawClient, change: dict[str, Any]) -> None:
    client.open_producer("mine")
    client.publish(client.block("mine", ["forged"], **change))
    assert isinstance(client.refusal(), errors.ProtocolError)


def test_a_message_larger_than_allowed_is_refused_and_the_session_goes_on(client: RawClient) -> None:
    client.open_producer("large")
    client.publish(client.block("large", ["x" * (MESSAGE_BYTES + 1)]))
    refused = client.expect(FrameType.REFUSED)
    assert refused["code"] == errors.MessageTooLarge.code and str(MESSAGE_BYTES) in refused["text"]
    client.publish(client.block("large", ["small"], 1))
    assert client.next_confirm() == 1


_WRONG: list[Any] = [
    None,
    True,
    -1,
    0,
    2**40,
    2**63 - 1,
    -(2**63),
    1.5,
    "x",
    "\0",
    "é" * 200,
    b"x",
    [],
    [1],
    {},
    {"at": 1},
    {"offset": -1},
    "queue:",
    "x" * 9_000,
]
_REQUESTS: dict[str, dict[str, Any]] = {
    "session.open": {"session": 9, "producer_id": b"p" * 16, "epoch": 1},
    "session.close": {},
    "producer.open": {"producer": 5, "destination": "queue:fuzz", "since": 1},
    "producer.close": {"producer": 5},
    "consumer.open": {
        "consumer": 6, "destination": "queue:fuzz", "selector": "a = 1", "no_local": False, "mode": "consume",
        "subscription": "s", "durable": False, "shared": False, "start": {"at": "earliest", "identity": "1-1"},
        "messages": 1, "bytes": 1_000, "held": [0, 1],
    },
    "consumer.close": {"consumer": 6},
    "subscription.delete": {"subscription": "s", "durable": True},
    "temporary.create": {"kind": "queue"},
    "destination.create": {
        "destination": "topic:fuzzed", "retained": True, "max_age_ms": 1_000, "max_bytes": 1_000,
        "redelivery_limit": 3, "backoff_ms": 10, "min_copies": 1,
    },
    "destination.delete": {"destination": "topic:fuzzed"},
    "destination.purge": {"destination": "queue:fuzz"},
    "destination.list": {"prefix": "f", "after": "queue:a", "limit": 10},
    "destination.show": {"destination": "queue:fuzz"},
    "offset.range": {"destination": "topic:fuzzed", "identity": "1-1"},
    "offset.at": {"destination": "topic:fuzzed", "time_ms": 0, "identity": "1-1"},
    "offset.cuts": {"destination": "topic:fuzzed", "start": 0, "end": 9, "parts": 2, "identity": "1-1"},
    "offset.files": {"destination": "topic:fuzzed", "start": 0, "end": 9, "identity": "1-1", "host": "here"},
    "hold.set": {"destination": "topic:fuzzed", "name": "h", "offset": 0, "seconds": 9, "identity": "1-1"},
    "hold.release": {"destination": "topic:fuzzed", "name": "h", "identity": "1-1"},
    "drain.take": {
        "destination": "queue:fuzz", "drain": "d", "after": 0, "messages": 1, "bytes": 1, "seconds": 1,
        "identity": "1-1",
    },
    "drain.list": {"destination": "queue:fuzz", "drain": "d", "after": 0, "upto": 9, "identity": "1-1"},
    "drain.finish": {"destination": "queue:fuzz", "drain": "d", "upto": 9, "identity": "1-1"},
    "drain.release": {"destination": "queue:fuzz", "drain": "d", "identity": "1-1"},
    "stage.open": {"destination": "queue:fuzz", "stage": b"s" * 16, "seconds": 9},
    "stage.claim": {"destination": "queue:fuzz", "app": "a"},
    "stage.commit": {"app": "a", "epoch": 1, "stages": [], "run": 1},
    "stage.drop": {"stages": [{"destination": "queue:fuzz", "stage": b"s" * 16}]},
    "stage.last": {"app": "a", "destinations": ["queue:fuzz"]},
    "dead.resend": {"offsets": [0, 1]},
    "client_id.set": {"client_id": "me"},
    "no.such.thing": {},
}  # fmt: skip


@pytest.mark.parametrize("op", _REQUESTS)
def test_every_field_of_a_request_may_be_anything(server: ServerProcess, op: str) -> None:
    """Each request is answered, or ends its connection with a sentence; nothing is left hanging."""
    for name in (*_REQUESTS[op], "id"):
        for value in _WRONG:
            with RawClient(server.port) as client:
                client.login()
                client.ask("session.open", 0, session=SESSION)
                session = 0 if op == "session.open" else SESSION
                client.send(
                    control(FrameType.REQUEST, session, {"id": 50, "op": op, **_REQUESTS[op], name: value}),
                    signal(FrameType.PING),
                )
                kinds = client.until_pong_or_end()
            assert kinds & {FrameType.REPLY, FrameType.FAILURE}, f"{name}={value!r} was not answered: {kinds}"


# Through the client.


def test_a_message_that_is_too_large_says_how_large_it_may_be(session: tocsin.Session) -> None:
    queue = session.queue("sizes")
    producer = session.producer(queue)
    kept = producer.send_nowait("kept")
    with pytest.raises(errors.MessageTooLarge, match=f"{MESSAGE_BYTES:,} is the most"):
        producer.send("x" * (MESSAGE_BYTES + 1))
    kept.wait(PATIENCE)
    producer.send("as large as it may be".ljust(MESSAGE_BYTES))
    consumer = session.consumer(queue)
    bodies = [consumer.receive_body(str, timeout=PATIENCE) for _ in range(2)]
    assert [(body or "").strip() for body in bodies] == ["kept", "as large as it may be"]


@pytest.mark.parametrize("name", ["", "x" * (DESTINATION_NAME_BYTES_MAX + 1), "two words", "star*", "quo'te", "\ud800"])
def test_a_bad_name(session: tocsin.Session, name: str) -> None:
    with pytest.raises(errors.InvalidDestination):
        session.queue(name)


def test_the_longest_name_works(session: tocsin.Session) -> None:
    queue = session.queue("é" * (DESTINATION_NAME_BYTES_MAX // 2))
    session.producer(queue).send("text")
    message = session.consumer(queue).receive(PATIENCE)
    assert message is not None and message.destination == queue


def test_names_of_the_system_can_be_neither_made_nor_published_to(session: tocsin.Session) -> None:
    with pytest.raises(errors.InvalidDestination, match="underscore"):
        session.producer(session.queue("_MINE")).send("text")
    with pytest.raises(errors.AccessDenied, match="_DMQ"):
        session.producer(session.queue("_DMQ")).send("text")


def test_a_kind_that_is_neither_queue_nor_topic(server: ServerProcess) -> None:
    with tocsin.connect(server.url) as connection, pytest.raises(errors.InvalidDestination, match="'queue' or 'topic'"):
        connection.create_destination("thing", "stack")


def test_a_kind_that_the_server_does_not_know(client: RawClient) -> None:
    client.login()
    client.ask("session.open", 0, session=SESSION)
    client.request("producer.open", producer=PRODUCER, destination="stack:thing")
    failure = client.expect(FrameType.FAILURE)
    assert failure["code"] == errors.InvalidDestination.code and "stack" in failure["text"]


@pytest.mark.parametrize(("selector", "where"), [("region = ", 8), ("price >> 3", 7), ("a = 'open", 4), ("(a = 1", 6)])
def test_a_bad_selector_says_where(session: tocsin.Session, selector: str, where: int) -> None:
    with pytest.raises(errors.InvalidSelector, match=rf"position {where}:"):
        session.consumer(session.queue("selected"), selector)
