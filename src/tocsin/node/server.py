"""A server inside the user's process: `with Server("data") as server: tocsin.connect(server.url)`."""

from __future__ import annotations

import asyncio
import os
import threading
from os import PathLike
from types import TracebackType
from typing import Any

from tocsin.model.errors import IllegalState
from tocsin.node.config import load_config
from tocsin.node.loop import new_event_loop
from tocsin.node.service import Service


class Server:
    """Runs on a thread of its own. Without a port it takes a free one; `url` says where it listens.

    Settings are those of the configuration file, by name: `Server("data", port=7177, sync="interval")`.
    """

    def __init__(self, data_dir: str | PathLike[str], **settings: Any) -> None:
        settings.setdefault("port", 0)
        self._config = load_config(None, {"data_dir": data_dir, **settings})
        self._service: Service | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._error: BaseException | None = None
        self._process = os.getpid()

    @property
    def url(self) -> str:
        if self._service is None:
            raise IllegalState("The server is not running; start it first, or use it in a with statement.")
        return self._service.url

    @property
    def local_url(self) -> str | None:
        """A shorter way for processes of the same user on this host; None when there is no local socket."""
        if self._service is None:
            raise IllegalState("The server is not running; start it first, or use it in a with statement.")
        return self._service.local_url

    @property
    def port(self) -> int:
        return self._service.port if self._service is not None else 0

    def start(self) -> Server:
        if self._thread is not None:
            raise IllegalState("The server is running already.")
        started = threading.Event()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, args=(started,), name="tocsin-server", daemon=True)
        self._thread.start()
        started.wait()
        if self._error is not None:
            self._thread.join()
            self._thread = None
            error, self._error = self._error, None
            raise error
        return self

    def stop(self) -> None:
        """Drains and stops; the data directory can be opened again at once. In a child that was forked it does nothing:
        the server runs in the process that started it.
        """
        if self._process != os.getpid() or self._thread is None or self._loop is None or self._stop is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._thread = None
        self._service = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, started: threading.Event) -> None:
        loop = self._loop = new_event_loop()
        try:
            loop.run_until_complete(self._serve(started))
        except BaseException as error:
            self._error = error
        finally:
            loop.close()
            started.set()

    async def _serve(self, started: threading.Event) -> None:
        self._stop = asyncio.Event()
        service = Service(self._config)
        await service.start()
        self._service = service
        started.set()
        assert service.failed is not None
        await service.until(self._stop)
        await service.stop()
        if service.failed.done():
            raise service.failed.result()
