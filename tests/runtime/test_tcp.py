"""What is written to a connection arrives, in order, whether the system takes it at once or bit by bit; and what comes
from one is read as it is wanted.

All of it twice: over TCP, and the short way that a client on the server's host takes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.system.certificates import Authority
from tests.system.processes import free_port

from tocsin.model.errors import PortInUse
from tocsin.model.limits import OUTBOUND_BYTES_MAX
from tocsin.node.loop import new_event_loop
from tocsin.runtime import tcp
from tocsin.runtime.accepting import Door
from tocsin.runtime.local import SOCKET_NAME, dial
from tocsin.runtime.tcp import TcpServer
from tocsin.runtime.tls import server_context
from tocsin.wire.frames import HEADER, VERSION, FrameType
from tocsin.wire.reader import FrameReader

PART = bytes(range(256)) * 1024
PARTS = 64
HOST = "127.0.0.1"
WAIT_SECONDS = 10.0


class Recorder:
    def __init__(self, *, over_tls: bool = False) -> None:
        self._over_tls = over_tls
        self.here: asyncio.Queue[int] = asyncio.Queue()
        self.gone: asyncio.Queue[int] = asyncio.Queue()
        self.peers: list[str] = []
        self.slow: list[tuple[int, bool]] = []

    def connected(self, connection: int, peer: str, near: bool, over_tls: bool) -> None:
        assert near, "all tests are on one host"
        assert over_tls is self._over_tls
        self.peers.append(peer)
        self.here.put_nowait(connection)

    def received(self, connection: int, data: bytes) -> int:
        return 1

    def slowed(self, connection: int, slow: bool) -> None:
        self.slow.append((connection, slow))

    def disconnected(self, connection: int) -> None:
        self.gone.put_nowait(connection)


LoopFactory = Callable[[], asyncio.AbstractEventLoop]
LOOPS = [asyncio.new_event_loop, new_event_loop]
"""Python's own, and the one that a server has."""
Way = Callable[[TcpServer, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def by_tcp(server: TcpServer, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(HOST, port)


async def by_local_socket(server: TcpServer, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    assert server.local_path is not None
    return await asyncio.open_unix_connection(sock=dial(server.local_path))


def run_on(loop_factory: LoopFactory, run: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(run(), WAIT_SECONDS))


both_ways = pytest.mark.parametrize("way", [by_tcp, by_local_socket])


class Frames(Recorder):
    """Puts frames together, as a server does. `then` is called after each."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.reader = FrameReader()
        self.reader.logged_in()
        self.payloads: list[memoryview] = []
        self.uncopied = 0
        self.all_here = asyncio.Event()
        self.then: Callable[[], None] = lambda: None
        self.stopped = False
        self.late = 0
        """How often something was read that should have stayed where it was."""
        self._count = count

    def received(self, connection: int, data: bytes) -> int:
        self.late += self.stopped
        for frame in self.reader.feed(data):
            payload = memoryview(frame.payload)
            self.payloads.append(payload)
            self.uncopied += payload.obj is data and len(payload) == len(data)
            self.then()
        if len(self.payloads) == self._count:
            self.all_here.set()
        return self.reader.wanted


async def connect(
    way: Way, events: Recorder | None = None
) -> tuple[TcpServer, Recorder, int, asyncio.StreamReader, asyncio.StreamWriter]:
    events = events or Recorder()
    server = TcpServer(events)
    with tempfile.TemporaryDirectory() as folder:
        port = await server.listen(HOST, 0, None, local=Path(folder))
        reader, writer = await way(server, port)
    return server, events, await events.here.get(), reader, writer


def sizes_of_frames() -> list[int]:
    """Large ones one behind another, which are read in another way than small ones, and both in turns."""
    return [0, 10, 5_000_000, 1_200_000, 1_200_000, 70_000, 5, 900_000, 0, 300_000, 64 * 1024, 64 * 1024 - 1, 1] * 3


def frame_of(number: int, size: int) -> bytes:
    return HEADER.pack(size, FrameType.PUBLISH, VERSION, 0, 1) + bytes([number % 251]) * size


async def disconnect(server: TcpServer, writer: asyncio.StreamWriter) -> None:
    writer.close()
    server.abort_all()
    await server.stop_listening()


@both_ways
def test_small_writes_arrive_in_order(way: Way) -> None:
    async def run() -> None:
        server, _, number, reader, writer = await connect(way)
        server.write(number, [b"one "])
        server.write(number, [b"two ", b"", b"three"])
        assert await reader.readexactly(13) == b"one two three"
        await disconnect(server, writer)

    asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS))


@both_ways
@pytest.mark.parametrize("parts_per_write", [1, 8, 32])
def test_what_the_system_does_not_take_at_once_follows_in_order(way: Way, parts_per_write: int) -> None:
    """Far more than the buffers of a connection hold, and the peer reads only afterwards."""

    async def run() -> None:
        server, _, number, reader, writer = await connect(way)
        for _ in range(PARTS // parts_per_write):
            server.write(number, [PART] * parts_per_write)
        assert await reader.readexactly(PARTS * len(PART)) == PART * PARTS
        server.write(number, [b"the end"])
        assert await reader.readexactly(7) == b"the end"
        await disconnect(server, writer)

    asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS))


@both_ways
@pytest.mark.parametrize("loop_factory", LOOPS)
@pytest.mark.parametrize("step", [None, 300_007], ids=["at once", "bit by bit"])
def test_frames_of_all_sizes_are_read_whole(way: Way, loop_factory: LoopFactory, step: int | None) -> None:
    sizes = sizes_of_frames()
    stream = b"".join(frame_of(number, size) for number, size in enumerate(sizes))

    async def run() -> None:
        events = Frames(len(sizes))
        server, _, _, _, writer = await connect(way, events)
        for start in range(0, len(stream), step or len(stream)):
            writer.write(stream[start : start + (step or len(stream))])
            await writer.drain()
        await events.all_here.wait()
        assert events.payloads == [bytes([number % 251]) * size for number, size in enumerate(sizes)]
        assert events.reader.waiting == 0
        await disconnect(server, writer)

    run_on(loop_factory, run)


@both_ways
@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_large_frame_behind_another_is_not_copied(way: Way, loop_factory: LoopFactory) -> None:
    sizes = [200_000] * 40

    async def run() -> None:
        events = Frames(len(sizes))
        server, _, connection, _, writer = await connect(way, events)
        server.pause_reading(connection, True)
        writer.write(b"".join(frame_of(number, size) for number, size in enumerate(sizes)))
        server.pause_reading(connection, False)
        await events.all_here.wait()
        # How many depends on what had come by the time of each read.
        assert events.uncopied
        await disconnect(server, writer)

    run_on(loop_factory, run)


@both_ways
@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_pause_holds_inside_a_row_of_large_frames(way: Way, loop_factory: LoopFactory) -> None:
    sizes = [200_000] * 20

    async def run() -> None:
        events = Frames(len(sizes))
        server, _, connection, _, writer = await connect(way, events)

        def stop() -> None:
            server.pause_reading(connection, True)
            events.stopped = True

        events.then = stop
        writer.write(b"".join(frame_of(number, size) for number, size in enumerate(sizes)))
        while not events.all_here.is_set():
            events.stopped = False
            server.pause_reading(connection, False)
            while not events.stopped:
                await asyncio.sleep(0)
        assert not events.late
        await disconnect(server, writer)

    run_on(loop_factory, run)


@both_ways
@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_connection_that_is_closed_inside_a_row_of_large_frames_is_read_no_more(
    way: Way, loop_factory: LoopFactory
) -> None:
    async def run() -> None:
        events = Frames(-1)
        server, _, number, _, writer = await connect(way, events)

        def stop() -> None:
            server.close_connection(number)
            events.stopped = True

        events.then = stop
        writer.write(b"".join(frame_of(each, 200_000) for each in range(40)))
        assert await events.gone.get() == number
        assert not events.late
        await disconnect(server, writer)

    run_on(loop_factory, run)


@both_ways
def test_a_peer_that_is_gone_is_reported_and_writing_to_it_does_no_harm(way: Way) -> None:
    async def run() -> None:
        server, events, number, _, writer = await connect(way)
        writer.transport.abort()
        for _ in range(20):
            server.write(number, [b"to nobody"])
        assert await events.gone.get() == number
        server.write(number, [b"to nobody"])
        await disconnect(server, writer)

    asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS))


@both_ways
def test_a_peer_that_never_reads_is_cut_off(way: Way) -> None:
    async def run() -> None:
        server, events, number, _, writer = await connect(way)
        large = bytes(OUTBOUND_BYTES_MAX // 4)
        for _ in range(8):
            server.write(number, [large])
        assert await events.gone.get() == number
        await disconnect(server, writer)

    asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS))


@pytest.mark.parametrize("loop_factory", LOOPS)
@pytest.mark.parametrize("seconds", [0.05, 60.0])
@both_ways
def test_one_that_is_closed_and_never_reads_is_gone_soon(
    way: Way, seconds: float, loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        server, events, connection, _, writer = await connect(way)
        for _ in range(PARTS):
            server.write(connection, [PART])
        server.close_connection(connection)
        assert len(server) == 1
        if seconds > WAIT_SECONDS:
            # Nor does it keep what others need meanwhile.
            monkeypatch.setattr("tocsin.runtime.outbound.OUTBOUND_ALL_BYTES_MAX", 1)
            server.outbound._make_room()
        try:
            assert await asyncio.wait_for(events.gone.get(), WAIT_SECONDS / 4) == connection
            assert len(server) == 0 and server.outbound.total == 0
        finally:
            await disconnect(server, writer)

    monkeypatch.setattr(tcp, "CLOSING_SECONDS_MAX", seconds, raising=False)
    run_on(loop_factory, run)


def test_a_server_that_stops_listening_is_found_neither_way(tmp_path: Path) -> None:
    async def run() -> None:
        server, port = TcpServer(Recorder()), free_port()
        await server.listen(HOST, port, None, local=tmp_path)
        assert server.local_path == str(tmp_path / SOCKET_NAME)
        await server.stop_listening()
        assert not (tmp_path / SOCKET_NAME).exists()
        with pytest.raises(ConnectionRefusedError):
            await by_tcp(server, port)

    asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS))


def test_a_socket_that_cannot_be_is_told_and_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        (tmp_path / SOCKET_NAME).write_text("in the way")
        server = TcpServer(Recorder())
        port = await server.listen(HOST, 0, None, local=tmp_path)
        assert server.local_path is None
        (await by_tcp(server, port))[1].close()
        server.abort_all()
        await server.stop_listening()

    asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS))
    assert "There is no local socket" in caplog.text and "remove it" in caplog.text


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_somebody_who_listens_at_the_same_moment_is_noticed(loop_factory: LoopFactory, tmp_path: Path) -> None:
    """Two sockets may be bound to one address, and one of them may listen."""

    async def run() -> None:
        port = free_port()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((HOST, port))

            class Late(Door):
                """Before which the other one begins to listen."""

                def open(self) -> None:
                    other.listen()
                    super().open()

            with pytest.MonkeyPatch.context() as patch, pytest.raises(PortInUse, match=f"Port {port} on {HOST}"):
                patch.setattr(tcp, "Door", Late)
                await TcpServer(Recorder()).listen(HOST, port, None, local=tmp_path)
            assert not (tmp_path / SOCKET_NAME).exists()

    run_on(loop_factory, run)


@pytest.mark.parametrize("loop_factory", LOOPS)
@pytest.mark.parametrize("name", ["x", f"\0one:two:{os.getpid()}"], ids=["path", "abstract"])
def test_a_client_may_have_bound_its_end_to_any_name(
    loop_factory: LoopFactory, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        events = Recorder()
        server = TcpServer(events)
        await server.listen(HOST, 0, None, local=tmp_path)
        with socket.socket(socket.AF_UNIX) as client:
            client.bind(name)
            client.connect(SOCKET_NAME)
            assert await events.here.get()
            assert events.peers == ["local socket"] and not failures
        server.abort_all()
        await server.stop_listening()

    monkeypatch.chdir(tmp_path)
    run_on(loop_factory, run)


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_process_of_another_user_is_turned_away(
    loop_factory: LoopFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The file system keeps it away already; one that was handed a descriptor, say, is met here."""

    async def run() -> None:
        events = Recorder()
        server = TcpServer(events)
        await server.listen(HOST, 0, None, local=tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(tcp, "may_enter", lambda line: False)
            reader, writer = await by_local_socket(server, 0)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
        assert not len(server) and not events.peers and events.gone.empty()
        _, writer = await by_local_socket(server, 0)
        assert await events.here.get()
        await disconnect(server, writer)

    run_on(loop_factory, run)
    assert f"A process of user {os.geteuid()} was turned away" in caplog.text


@pytest.mark.parametrize("loop_factory", LOOPS)
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half a hello"])
def test_a_handshake_is_counted_at_once_and_has_an_end(loop_factory: LoopFactory, said: bytes, tmp_path: Path) -> None:
    tls = server_context(Authority(tmp_path, "authority").issue(HOST))

    async def run() -> None:
        events = Recorder(over_tls=True)
        server = TcpServer(events, handshake_seconds=0.2)
        port = await server.listen(HOST, 0, lambda: tls)
        reader, writer = await by_tcp(server, port)
        writer.write(said)
        number = await events.here.get()
        assert len(server) == 1
        assert await events.gone.get() == number and not len(server)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        await disconnect(server, writer)

    run_on(loop_factory, run)


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_who_is_sent_away_during_the_handshake_is_gone_at_once(loop_factory: LoopFactory, tmp_path: Path) -> None:
    tls = server_context(Authority(tmp_path, "authority").issue(HOST))

    async def run() -> None:
        events = Recorder(over_tls=True)
        server = TcpServer(events, handshake_seconds=60.0)
        port = await server.listen(HOST, 0, lambda: tls)
        reader, writer = await by_tcp(server, port)
        number = await events.here.get()
        server.write(number, [b"nobody can read this yet"])
        server.close_connection(number)
        assert await events.gone.get() == number
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        await disconnect(server, writer)

    run_on(loop_factory, run)


@both_ways
@pytest.mark.parametrize("loop_factory", LOOPS)
def test_who_is_sent_away_as_soon_as_it_comes_is_told_why(way: Way, loop_factory: LoopFactory, tmp_path: Path) -> None:
    class Refusing(Recorder):
        def connected(self, connection: int, peer: str, near: bool, over_tls: bool) -> None:
            super().connected(connection, peer, near, over_tls)
            server.write(connection, [b"there is ", b"no room"])
            server.close_connection(connection)

    events = Refusing()
    server = TcpServer(events)

    async def run() -> None:
        port = await server.listen(HOST, 0, None, local=tmp_path)
        reader, writer = await way(server, port)
        assert await reader.read() == b"there is no room"
        assert await events.gone.get() == await events.here.get()
        await disconnect(server, writer)

    run_on(loop_factory, run)


@both_ways
def test_the_last_descriptors_are_for_files(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever counts connections may be wrong: then they are closed without a word."""

    async def run() -> None:
        events = Recorder()
        server = TcpServer(events)
        port = await server.listen(HOST, 0, None, local=tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(tcp, "descriptor_limit", lambda: 10)
            reader, writer = await way(server, port)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        assert server.turned_away == 1 and not events.peers
        await disconnect(server, writer)

    asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS))
