"""Connections of this process, kept from task to task: Spark uses a Python worker again and again.

A connection heals itself for `reconnectTimeout` seconds. One that has been given up is replaced when it is asked for
the next time. A worker that was forked off another process never uses that process's connections.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict

from tocsin.client.sync import Connection
from tocsin.model.errors import ConnectionFailed, TocsinError
from tocsin.model.spark_limits import SPARK_CONNECT_PAUSE_SECONDS, SPARK_CONNECTIONS_MAX
from tocsin.spark.server_options import ServerOptions

_lock = threading.Lock()
_kept: OrderedDict[tuple[int, ServerOptions], Connection] = OrderedDict()


def connection_to(server: ServerOptions, *, patient: bool = False) -> Connection:
    """The connection of this process to a server. With `patient`, one that is away may take its time to come back.

    A planner says at once that there is no server, since a wrong URL is the likely reason. A task is patient: the
    query has reached that server before.
    """
    key = os.getpid(), server
    with _lock:
        found = _kept.get(key)
        if found is not None and is_usable(found):
            _kept.move_to_end(key)
            return found
        _kept.pop(key, None)
        made = _connect_patiently(server) if patient else server.connect()
        _kept[key] = made
        stale = [_kept.popitem(last=False)[1] for _ in range(len(_kept) - SPARK_CONNECTIONS_MAX)]
    for connection in stale:
        connection.close()
    return made


def is_usable(connection: Connection) -> bool:
    return not (connection.is_closed or connection.is_lost)


def _connect_patiently(server: ServerOptions) -> Connection:
    seconds = server.patience
    until = time.monotonic() + seconds
    while True:
        try:
            return server.connect()
        except ConnectionFailed as error:
            if time.monotonic() >= until:
                raise ConnectionFailed(f"{server} could not be reached for {seconds:g} s. {error}") from error
        time.sleep(SPARK_CONNECT_PAUSE_SECONDS)


def give_up_connection(server: ServerOptions) -> None:
    """After a wait in vain: a task does not wait again for what it has under way, and the next one begins anew."""
    with _lock:
        found = _kept.pop((os.getpid(), server), None)
    if found is not None:
        found.abandon()


def close_connections() -> None:
    """Hangs up everywhere; for tests, and for programs that read in their own process."""
    with _lock:
        mine = [key for key in _kept if key[0] == os.getpid()]
        connections = [_kept.pop(key) for key in mine]
    for connection in connections:
        try:
            connection.close()
        except TocsinError:
            # It was lost before; there is nobody to say goodbye to.
            continue
