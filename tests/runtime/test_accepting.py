"""Connections are taken as they come; without a descriptor for them they wait, and nothing turns in circles."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable

import pytest

from tocsin.node.loop import new_event_loop
from tocsin.runtime import accepting
from tocsin.runtime.accepting import Door, bound_sockets

HOST = "127.0.0.1"
WAIT_SECONDS = 10.0
LoopFactory = Callable[[], asyncio.AbstractEventLoop]
both_loops = pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, new_event_loop])


def run_on(loop_factory: LoopFactory, run: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(run(), WAIT_SECONDS))


class Crowded(socket.socket):
    """A listening socket for whose connections there is no descriptor at first."""

    failures: int
    tries = 0
    error = errno.EMFILE

    def accept(self) -> tuple[socket.socket, object]:
        Crowded.tries += 1
        if Crowded.tries <= self.failures:
            raise OSError(self.error, os.strerror(self.error))
        return super().accept()


@both_loops
@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_without_a_descriptor_newcomers_wait_and_the_loop_rests(
    loop_factory: LoopFactory, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = 0.1
    monkeypatch.setattr(accepting, "ACCEPT_PAUSE_SECONDS", pause)
    monkeypatch.setattr(Crowded, "failures", 3, raising=False)
    monkeypatch.setattr(Crowded, "tries", 0)
    monkeypatch.setattr(Crowded, "error", error)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        listener = Crowded()
        listener.bind((HOST, 0))
        entered: asyncio.Queue[socket.socket] = asyncio.Queue()
        door = Door(loop, listener, entered.put_nowait)
        door.open()
        began = loop.time()
        with socket.create_connection(door.address):
            (await entered.get()).close()
        # Each pause is one try; the fourth took it, and the fifth found nobody.
        assert loop.time() - began >= 3 * pause * 0.9
        assert Crowded.tries <= 5
        door.close()

    run_on(loop_factory, run)


@both_loops
def test_a_door_that_is_closed_while_it_rests_takes_nobody(
    loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "ACCEPT_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(Crowded, "failures", 1, raising=False)
    monkeypatch.setattr(Crowded, "tries", 0)

    async def run() -> None:
        listener = Crowded()
        listener.bind((HOST, 0))
        door = Door(asyncio.get_running_loop(), listener, lambda _: pytest.fail("it is closed"))
        door.open()
        with socket.create_connection(door.address):
            while not Crowded.tries:
                await asyncio.sleep(0)
            door.close()
            await asyncio.sleep(0.1)
        assert Crowded.tries == 1

    run_on(loop_factory, run)


def test_every_address_of_a_host_gets_a_socket() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        for host in ("127.0.0.1", "localhost"):
            found = await bound_sockets(loop, host, 0)
            assert found and all(each.getsockname()[1] for each in found)
            for each in found:
                each.close()
        with pytest.raises(OSError):
            await bound_sockets(loop, "192.0.2.1", 0)

    asyncio.run(run())
