"""What a running server does when its disk fails under it."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from tocsin import aio
from tocsin.model.errors import StorageFailed
from tocsin.node.config import ServerConfig
from tocsin.node.service import Service

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
