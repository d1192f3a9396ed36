"""Connections must not take the descriptors that files need: a server under a small limit, and many who say nothing."""

from __future__ import annotations

import resource
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.system.processes import HOST, PATIENCE, ServerProcess, until

import tocsin
from tocsin.model.entrance_limits import DESCRIPTORS_WANTED
from tocsin.model.errors import ResourceExhausted, from_code
from tocsin.wire.frames import FrameType
from tocsin.wire.reader import FrameReader

LIMIT = 256
PLACES = 40
SILENT = 1_000
LOGIN_SECONDS = 3.0
BODY = bytes(512 * 1024)
BODIES_PER_SEGMENT = 8


def limited(soft: int, hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def crowd(port: int) -> Iterator[list[socket.socket]]:
    """Many connections that say nothing, from many addresses of this machine."""
    with ExitStack() as stack:
        lines = []
        for number in range(SILENT):
            line = stack.enter_context(socket.socket())
            line.settimeout(PATIENCE)
            line.bind((f"127.0.1.{number % PLACES + 1}", 0))
            line.connect((HOST, port))
            lines.append(line)
        yield lines


def told(line: socket.socket) -> str:
    """What the server says before it closes a connection; nothing when it only closes it, or lets it wait."""
    line.settimeout(0.0)
    try:
        data = line.recv(4096)
    except (BlockingIOError, ConnectionResetError):
        return ""
    for frame in FrameReader().feed(data):
        assert frame.type is FrameType.FAILURE
        fields = frame.fields()
        return str(from_code(fields["code"], fields["text"]))
    return ""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "server", login_s=LOGIN_SECONDS)
    server.before = lambda: limited(LIMIT, LIMIT)
    with server:
        yield server
        server.check_log()


def test_a_thousand_silent_connections_do_not_stop_a_server(server: ServerProcess) -> None:
    with tocsin.connect(server.url) as connection, connection.session() as session:
        queue = session.queue("orders")
        producer, consumer = session.producer(queue), session.consumer(queue)
        with crowd(server.port) as lines:
            for _ in range(3 * BODIES_PER_SEGMENT):
                # Every eighth needs a new file.
                producer.send(BODY)
                assert consumer.receive(PATIENCE) is not None
            assert server.is_running, server.log()
            reasons = Counter(text.partition(" connections")[2] for line in lines if (text := told(line)))
            assert reasons[", which is the most it has room for; try another server, or this one later."] > SILENT // 4
            with pytest.raises(ResourceExhausted, match="which is the most it has room for"):
                tocsin.connect(server.url)
        # Those who came first are sent away when their time is over, and then there is room.
        until(lambda: comes_in(server), "a newcomer is let in")
        producer.send("after it")
        message = consumer.receive(PATIENCE)
        assert message is not None and message.body == "after it"
    assert server.stop() == 0


def comes_in(server: ServerProcess) -> bool:
    try:
        tocsin.connect(server.url).close()
    except ResourceExhausted:
        return False
    return True


def test_a_server_process_raises_its_limit_as_far_as_it_may(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "server")
    hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], DESCRIPTORS_WANTED)
    server.before = lambda: limited(LIMIT, hard)
    with server:
        assert resource.prlimit(server.number, resource.RLIMIT_NOFILE) == (hard, hard)
        assert server.stop() == 0


def test_where_there_is_no_room_for_clients_a_server_says_so_and_does_not_start(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "server")
    server.before = lambda: limited(64, 64)
    with pytest.raises(AssertionError, match="allows this process 64 open files, which leaves no room for clients"):
        server.start()
