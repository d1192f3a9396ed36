"""What a running server does when its disk fails under it, and when its loop meets an error."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.system.certificates import NAMES_THAT_ARE_NO_TEXT, Authority, show

from tocsin import aio
from tocsin.model.errors import StorageFailed
from tocsin.node.config import ServerConfig
from tocsin.node.loop import new_event_loop
from tocsin.node.service import Service
from tocsin.runtime.tls import client_context

HOST = "127.0.0.1"
PATIENCE = 20.0
BODIES = (b"small: the loop writes it", b"x" * 100_000)


def fail(descriptor: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("body", BODIES, ids=["small", "large"])
def test_a_disk_that_fails_ends_the_server_and_nothing_is_confirmed(
    body: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        service = Service(ServerConfig(data_dir=tmp_path, port=0))
        await service.start()
        failed = service.failed
        assert failed is not None
        connection = await aio.connect(service.url, reconnect_timeout=0.1)
        producer = await (session := await connection.session()).producer(session.queue("orders"))
        await producer.send(b"fine")
        monkeypatch.setattr(os, "fdatasync", fail)
        sending = asyncio.create_task(producer.send(body))
        assert isinstance(await asyncio.wait_for(failed, PATIENCE), StorageFailed)
        await service.stop()
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(sending, PATIENCE)
        await connection.close()

    asyncio.run(run())


@pytest.mark.makes_mistakes
@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, new_event_loop])
def test_a_certificate_that_cannot_be_read_ends_its_own_connection(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "authority")
    own, good = authority.issue(HOST), authority.issue("client")
    bad = authority.issue("bad", names=NAMES_THAT_ARE_NO_TEXT)

    async def run() -> None:
        tls = partial(ServerConfig, tls_cert=own.certificate, tls_key=own.key, tls_client_ca=authority.path)
        service = Service(tls(data_dir=tmp_path / "data", port=0))
        await service.start()
        assert service.failed is not None
        await show(service.port, bad, authority.path)
        while not service._faults.count:
            await asyncio.sleep(0)
        async with await aio.connect(service.url, ssl=client_context(ca=authority.path, own=good)):
            assert service._faults.count == 1 and not service.failed.done()
        await service.stop()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(run(), PATIENCE))
