"""File descriptors: how many there are, how many connections may take, and a wait when there is none.

Connections and files share the process's table of descriptors. Connections come from strangers and files must not fail
because of them, so connections leave a reserve.
"""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Callable
from typing import TypeVar

from tocsin.model.entrance_limits import (
    CONNECTIONS_MIN,
    DESCRIPTOR_PAUSE_SECONDS,
    DESCRIPTOR_WAIT_SECONDS,
    DESCRIPTORS_RESERVED,
    DESCRIPTORS_WANTED,
)
from tocsin.model.errors import ConfigError
from tocsin.model.limits import CONNECTIONS_MAX

T = TypeVar("T")

NONE_LEFT = (errno.EMFILE, errno.ENFILE)


def raise_limit() -> int:
    """Lets this process have as many descriptors as the system allows, within reason; returns how many that are.

    For a process that is a server and nothing else: what a program has set for itself is its own choice, and one that
    calls select() must not have more than 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft  # Forbidden by something else than the limit: what there is has to do.
        return wanted
    return soft


def descriptor_limit() -> int:
    """How many descriptors the process may have; one behind the highest number that it can get."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS_WANTED if soft == resource.RLIM_INFINITY else soft


def reserve(journals: int) -> int:
    """Descriptors that connections leave to files, for so many journals."""
    return DESCRIPTORS_RESERVED * max(1, journals)


def connections_max(journals: int) -> int:
    """How many connections this process has room for, beside its files and what is open already.

    ConfigError when that is next to none.
    """
    limit = descriptor_limit()
    room = limit - _in_use() - reserve(journals)
    if room < CONNECTIONS_MIN:
        raise ConfigError(
            f"The system allows this process {limit} open files, which leaves no room for clients; allow at least"
            f" {limit - room + CONNECTIONS_MIN}, and better {DESCRIPTORS_WANTED}, by `ulimit -n` or systemd's"
            " LimitNOFILE."
        )
    return min(CONNECTIONS_MAX, room)


def _in_use() -> int:
    """The system gives the lowest number that is free, so at least as many are in use."""
    descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.close(descriptor)
    return descriptor


def patiently(call: Callable[[], T], pause: Callable[[float], None] = time.sleep) -> T:
    """Calls it, again and again while it finds no free descriptor: that passes. After a while it raises what it got."""
    for _ in range(round(DESCRIPTOR_WAIT_SECONDS / DESCRIPTOR_PAUSE_SECONDS)):
        try:
            return call()
        except OSError as error:
            if error.errno not in NONE_LEFT:
                raise
        pause(DESCRIPTOR_PAUSE_SECONDS)
    return call()
