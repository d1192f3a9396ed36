"""Handshakes that are one too many wait with nothing but their socket, and not for ever."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from tests.runtime.test_tcp import HOST, LOOPS, LoopFactory, Recorder, by_tcp, run_on
from tests.system.certificates import Authority

from tocsin.runtime import handshakes
from tocsin.runtime.tcp import TcpServer
from tocsin.runtime.tls import client_context, server_context


class Queued:
    """A server with room for one handshake, which somebody silent has taken."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 1)
        authority = Authority(folder, "authority")
        self.tls, self.client = server_context(authority.issue(HOST)), client_context(ca=authority.path)

    async def open(self, seconds: float = 60.0) -> None:
        self.events = Recorder(over_tls=True)
        self.server = TcpServer(self.events, handshake_seconds=seconds)
        self.port = await self.server.listen(HOST, 0, lambda: self.tls)
        _, self.silent = await by_tcp(self.server, self.port)
        self.first = await self.events.here.get()

    async def close(self) -> None:
        self.silent.close()
        self.server.abort_all()
        await self.server.stop_listening()
        while len(self.server):
            await asyncio.sleep(0)
        assert not len(self.server.handshakes)


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_handshake_waits_for_its_turn_without_an_object_of_tls(
    loop_factory: LoopFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = Queued(tmp_path, monkeypatch)

    async def run() -> None:
        await queued.open()
        coming = asyncio.create_task(asyncio.open_connection(HOST, queued.port, ssl=queued.client))
        second = await queued.events.here.get()
        waiting = queued.server._connections[second]
        assert waiting._task is None and len(queued.server.handshakes) == 1
        queued.silent.transport.abort()
        _, writer = await coming
        assert await queued.events.gone.get() == queued.first
        while len(queued.server.handshakes):
            await asyncio.sleep(0)
        writer.close()
        await queued.close()

    run_on(loop_factory, run)


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_handshake_has_the_context_that_is_in_use_when_it_begins(
    loop_factory: LoopFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = Queued(tmp_path, monkeypatch)
    other = Authority(tmp_path, "other")

    async def run() -> None:
        await queued.open()
        trusting = client_context(ca=other.path)
        coming = asyncio.create_task(asyncio.open_connection(HOST, queued.port, ssl=trusting))
        await queued.events.here.get()
        queued.tls = server_context(other.issue(HOST, "renewed"))
        queued.silent.transport.abort()
        _, writer = await coming
        writer.close()
        await queued.close()

    run_on(loop_factory, run)


@pytest.mark.parametrize("loop_factory", LOOPS)
@pytest.mark.parametrize("sent_away", [True, False])
def test_the_wait_for_a_handshake_has_an_end(
    loop_factory: LoopFactory, sent_away: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = Queued(tmp_path, monkeypatch)

    async def run() -> None:
        await queued.open(60.0 if sent_away else 0.2)
        reader, writer = await by_tcp(queued.server, queued.port)
        second = await queued.events.here.get()
        if sent_away:
            queued.server.close_connection(second)
            assert await queued.events.gone.get() == second
        else:
            assert {await queued.events.gone.get(), await queued.events.gone.get()} == {queued.first, second}
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        await queued.close()

    run_on(loop_factory, run)
