"""A server as a process of its own: signals, log, exit code."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from tocsin.model.errors import TocsinError
from tocsin.model.visible import visible
from tocsin.node.config import ServerConfig
from tocsin.node.loop import new_event_loop
from tocsin.node.service import Service
from tocsin.runtime.descriptors import raise_limit

log = logging.getLogger("tocsin")

SWITCH_SECONDS = 0.0005
_NAME = "tocsin"
_EVERYWHERE = ("0.0.0.0", "[::]")


def run_server(config: ServerConfig, *, log_json: bool = False) -> int:
    """Serves until SIGTERM or SIGINT, which drain; SIGHUP reloads users and certificates. Returns the exit code."""
    set_up_log(log_json)
    raise_limit()
    # The journal's thread needs Python's lock for moments only; while the loop is busy it must not wait 5 ms for each.
    sys.setswitchinterval(SWITCH_SECONDS)
    loop = new_event_loop()
    try:
        return loop.run_until_complete(_serve(config))
    finally:
        loop.close()


def keep_what_is_there() -> None:
    """What was loaded and recovered stays: to look at it all for garbage would hold a message up by tens of
    milliseconds, now and then.
    """
    gc.collect()
    gc.freeze()


async def _serve(config: ServerConfig) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    # Before anybody can know that the server is there: a signal that comes early must not end it the hard way.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    service = Service(config)
    loop.add_signal_handler(signal.SIGHUP, _reload, service)
    keep_what_is_there()
    await service.start()
    log.info("tocsin listens on %s, data in %s.", service.url, config.data_dir)
    send, receive = first_commands(_own_name(), service.url, with_users=config.users_file is not None)
    log.info("Send a first message:   %s", send)
    log.info("and receive it:         %s", receive)
    log.info("Ctrl-C stops the server; nothing that was confirmed is lost.")
    assert service.failed is not None
    await service.until(stop)
    failed = service.failed.done()
    if not failed:
        log.info("Stopping: writing everything to disk.")
    await service.stop()
    if failed:
        return 1
    log.info("Stopped.")
    return 0


def first_commands(name: str, url: str, *, with_users: bool) -> tuple[str, str]:
    """What a newcomer can copy into another terminal of this machine: send a message, and receive it."""
    for everywhere in _EVERYWHERE:
        # One can listen on all addresses, but not call them.
        url = url.replace(f"//{everywhere}:", "//localhost:")
    server = f"--url {url}{' --user NAME' if with_users else ''}"
    return f"{name} send {server} orders 'two dozen'", f"{name} receive {server} orders --count 1"


def _own_name() -> str:
    """How the user has called us, where the shell would not find us by the bare name."""
    called = Path(sys.argv[0])
    return str(called) if called.name == _NAME and shutil.which(_NAME) is None else _NAME


def _reload(service: Service) -> None:
    try:
        service.reload()
    except TocsinError as error:
        log.error("Users and certificates were not reloaded, the old ones stay in use: %s", error)


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(
            {
                "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
                "level": record.levelname.lower(),
                "message": record.getMessage(),
            }
        )


class _PlainFormatter(logging.Formatter):
    """What clients and peers say is in the lines, and somebody reads them in a terminal sooner or later."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def set_up_log(as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    plain = _PlainFormatter("%(asctime)s %(levelname)-8s %(message)s", "%Y-%m-%d %H:%M:%S")
    handler.setFormatter(_JsonFormatter() if as_json else plain)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
