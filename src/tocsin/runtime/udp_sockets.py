"""The sockets of one transport on one event loop: read when something is there, told when there is room again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tocsin.model.limits import BUS_READS_PER_TURN
from tocsin.runtime.datagrams import Place, Received
from tocsin.runtime.udp import UdpSocket


class UdpSockets:
    """A socket belongs to a channel; several may."""

    __slots__ = ("_loop", "_received", "_sockets", "_waiting", "_writable")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sockets: list[tuple[int, UdpSocket]] = []
        self._received: Received | None = None
        self._writable: Callable[[], None] | None = None
        self._waiting: UdpSocket | None = None

    def add(self, channel: int, place: Place, *, shared: bool = False) -> UdpSocket:
        added = UdpSocket(place, shared=shared)
        self._sockets.append((channel, added))
        if self._received is not None:
            self._listen(channel, added)
        return added

    def start(self, received: Received, writable: Callable[[], None]) -> None:
        self._received, self._writable = received, writable
        for channel, each in self._sockets:
            self._listen(channel, each)

    def wait_for_room(self, full: UdpSocket) -> None:
        """The owner is told once; another socket that is full meanwhile is found by the next try."""
        if self._waiting is None:
            self._waiting = full
            self._loop.add_writer(full.raw, self._has_room)

    def remove(self, gone: UdpSocket) -> None:
        self._sockets = [(channel, each) for channel, each in self._sockets if each is not gone]
        if self._received is not None:
            self._loop.remove_reader(gone.raw)
        if self._waiting is gone:
            self._has_room()
        gone.close()

    def close(self) -> None:
        self._writable = None
        for _, each in list(self._sockets):
            self.remove(each)

    def _listen(self, channel: int, each: UdpSocket) -> None:
        self._loop.add_reader(each.raw, self._read, channel, each)

    def _read(self, channel: int, each: UdpSocket) -> None:
        assert self._received is not None, "reading begins with start()"
        for _ in range(BUS_READS_PER_TURN):
            found = each.receive()
            if found is None:
                return
            self._received(channel, *found)
            if each.raw.fileno() < 0:
                return

    def _has_room(self) -> None:
        assert self._waiting is not None, "only who waits is told"
        self._loop.remove_writer(self._waiting.raw)
        self._waiting = None
        if self._writable is not None:
            self._writable()
