"""Network namespaces as machines of a test: each has an address of its own, and wires that a test can move.

Every machine's wire ends in a hub, plugged into one of two bridges there: the mainland and an island. Who is moved to
the island hears the others there and nobody else; its own interface stays up, so nothing tells it that it was cut
off. Multicast crosses a bridge like a switch that does not look at it.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

NETWORK = "10.77.0"
MAINLAND, ISLAND = "mainland", "island"
_PREFIX = "tocsin-test"
_HUB = "hub"
_PLACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_COMMAND_SECONDS = 20
_runs = itertools.count()

T = TypeVar("T")


class Namespaces:
    """A context manager; nothing of it is left afterwards, also if making it failed halfway."""

    def __init__(self, names: Sequence[str]) -> None:
        if os.geteuid() != 0:
            pytest.skip("network namespaces need root")
        self._run = f"{_PREFIX}-{os.getpid()}-{next(_runs)}"
        self._numbers = {name: number for number, name in enumerate(names, start=1)}

    def address(self, name: str) -> str:
        return f"{NETWORK}.{self._numbers[name]}"

    def command(self, name: str) -> list[str]:
        """What to put before a command that shall run on that machine."""
        return ["ip", "netns", "exec", self._space(name)]

    def isolate(self, names: Iterable[str]) -> None:
        """These machines hear each other and nobody else."""
        for name in names:
            self._plug(name, ISLAND)

    def heal(self) -> None:
        for name in self._numbers:
            self._plug(name, MAINLAND)

    def inside(self, name: str, work: Callable[[], T]) -> T:
        """Runs a function on that machine: sockets it opens, also on threads it starts, are there."""
        results: list[T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                _enter(_PLACES / self._space(name))
                results.append(work())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, name=f"on {name}")
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def __enter__(self) -> Self:
        _remove_leftovers()
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for space in _spaces():
            if space.startswith(self._run + "-"):
                _ip("netns", "delete", space)

    def _build(self) -> None:
        hub = self._space(_HUB)
        _ip("netns", "add", hub)
        for bridge in (MAINLAND, ISLAND):
            _ip("-n", hub, "link", "add", bridge, "type", "bridge", "mcast_snooping", "0", "forward_delay", "0")
            _ip("-n", hub, "link", "set", bridge, "up")
        for name, number in self._numbers.items():
            space, port = self._space(name), f"port{number}"
            _ip("netns", "add", space)
            _ip("-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("-n", hub, "link", "set", port, "master", MAINLAND, "up")
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")

    def _plug(self, name: str, bridge: str) -> None:
        _ip("-n", self._space(_HUB), "link", "set", f"port{self._numbers[name]}", "master", bridge)

    def _space(self, name: str) -> str:
        return f"{self._run}-{name}"


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, timeout=_COMMAND_SECONDS)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr.decode()}"


def _spaces() -> list[str]:
    return [place.name for place in _PLACES.glob(f"{_PREFIX}-*")]


def _remove_leftovers() -> None:
    """Of runs that were killed: the process in their name is no more."""
    for space in _spaces():
        pid = space.removeprefix(_PREFIX + "-").partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            with suppress(AssertionError):
                # Another process that tests at the same time may be faster.
                _ip("netns", "delete", space)


def _enter(place: Path) -> None:
    """Moves this thread; threads and processes that it starts begin there."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    with open(place, "rb") as space:
        if libc.setns(space.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"can't enter {place}")
