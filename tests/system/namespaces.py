"""Network namespaces as machines of a test: each has an address of its own, and a test says who hears whom.

Every machine's wire ends in a bridge, which multicast crosses like a switch that does not look at it. Where a wire
leaves the bridge, a filter drops what comes from machines that are not to be heard there: so a cut can have any shape,
also one way. Interfaces stay up, so nothing tells a machine that it was cut off.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

NETWORK = "10.77.0"
_PREFIX = "tocsin-test"
_HUB = "hub"
_BRIDGE = "bridge"
# A machine's interface is numbered like the machine, in the last four bytes of its hardware address.
_HARDWARE = "02:77:00:00:00:{:02x}"
# Classic BPF, as tc reads it (operation, jump if true, jump if false, value), on a frame of Ethernet.
_LOAD_SOURCE = "32 0 0 8"
_DROP_IF = "21 {jump} 0 {number}"
_PASS, _DROP = "6 0 0 4294967295", "6 0 0 2"
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
        missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"network namespaces need {' and '.join(missing)} (iproute2)")
        self._run = f"{_PREFIX}-{os.getpid()}-{next(_runs)}"
        self._numbers = {name: number for number, name in enumerate(names, start=1)}
        self._deaf: dict[str, frozenset[str]] = {name: frozenset() for name in names}

    def address(self, name: str) -> str:
        return f"{NETWORK}.{self._numbers[name]}"

    def command(self, name: str) -> list[str]:
        """What to put before a command that shall run on that machine."""
        return ["ip", "netns", "exec", self._space(name)]

    def cut(self, deaf: Iterable[tuple[str, str]]) -> None:
        """From now on the first machine of each pair does not hear the second; all others hear each other."""
        unheard: dict[str, set[str]] = {name: set() for name in self._numbers}
        for hearer, source in deaf:
            unheard[hearer].add(source)
        for hearer, sources in unheard.items():
            self._filter(hearer, frozenset(sources))

    def isolate(self, names: Iterable[str]) -> None:
        """These machines hear each other and nobody else."""
        island = set(names)
        self.cut((a, b) for a in self._numbers for b in self._numbers if (a in island) != (b in island))

    def heal(self) -> None:
        self.cut(())

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
                _run("ip", "netns", "delete", space)

    def _build(self) -> None:
        hub = self._space(_HUB)
        _run("ip", "netns", "add", hub)
        _run("ip", "-n", hub, "link", "add", _BRIDGE, "type", "bridge", "mcast_snooping", "0", "forward_delay", "0")
        _run("ip", "-n", hub, "link", "set", _BRIDGE, "up")
        for name, number in self._numbers.items():
            space, port = self._space(name), self._port(name)
            _run("ip", "netns", "add", space)
            _run("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            _run("ip", "-n", hub, "link", "set", port, "master", _BRIDGE, "up")
            _run("tc", "-n", hub, "qdisc", "add", "dev", port, "clsact")
            _run("ip", "-n", space, "link", "set", "lo", "up")
            _run("ip", "-n", space, "link", "set", "eth0", "address", _HARDWARE.format(number))
            _run("ip", "-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            _run("ip", "-n", space, "link", "set", "eth0", "up")

    def _filter(self, name: str, sources: frozenset[str]) -> None:
        if sources == self._deaf[name]:
            return
        way = ("-n", self._space(_HUB), "filter")
        place = ("dev", self._port(name), "egress")
        if sources:
            program = _program(sorted(self._numbers[source] for source in sources))
            _run("tc", *way, "replace", *place, "pref", "1", "handle", "1", "bpf", "da", "bytecode", program)
        else:
            _run("tc", *way, "delete", *place)
        self._deaf[name] = sources

    def _port(self, name: str) -> str:
        return f"port{self._numbers[name]}"

    def _space(self, name: str) -> str:
        return f"{self._run}-{name}"


def _program(numbers: Sequence[int]) -> str:
    """A filter that drops the frames of these machines."""
    count = len(numbers)
    tests = [_DROP_IF.format(jump=count - turn, number=number) for turn, number in enumerate(numbers)]
    lines = [_LOAD_SOURCE, *tests, _PASS, _DROP]
    return ",".join([str(len(lines)), *lines])


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, timeout=_COMMAND_SECONDS)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode()}"


def _spaces() -> list[str]:
    return [place.name for place in _PLACES.glob(f"{_PREFIX}-*")]


def _remove_leftovers() -> None:
    """Of runs that were killed: the process in their name is no more."""
    for space in _spaces():
        pid = space.removeprefix(_PREFIX + "-").partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            with suppress(AssertionError):
                # Another process that tests at the same time may be faster.
                _run("ip", "netns", "delete", space)


def _enter(place: Path) -> None:
    """Moves this thread; threads and processes that it starts begin there."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    with open(place, "rb") as space:
        if libc.setns(space.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"can't enter {place}")
