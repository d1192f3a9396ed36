"""Drives a bus on an event loop: bytes in, bursts out, one timer, events to the owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from typing import Generic, Protocol, TypeVar

from tocsin.model.faults import Faults
from tocsin.model.limits import BUS_PROMPT_SECONDS
from tocsin.runtime.datagrams import Burst, Place, Transport

Event = TypeVar("Event", covariant=True)


class BusMachine(Protocol[Event]):
    """What is driven: `tocsin.bus.machine.Bus`, seen from below."""

    def received(self, channel: int, data: bytes, segment: int, now: float, source: Place) -> None: ...

    def tick(self, now: float) -> None: ...

    def next_deadline(self) -> float: ...

    def take_bursts(self, now: float) -> list[Burst]: ...

    def take_events(self) -> Sequence[Event]: ...


class BusLoop(Generic[Event]):
    """`handle` gets the events of each turn. After a `send` of its own the owner calls `flush`, which sends within the
    same turn of the loop, so that messages sent together share datagrams.
    """

    def __init__(
        self,
        bus: BusMachine[Event],
        transport: Transport,
        loop: asyncio.AbstractEventLoop,
        handle: Callable[[Sequence[Event]], None],
        faults: Faults | None = None,
    ) -> None:
        self._faults = faults or Faults()
        self._bus = bus
        self._transport = transport
        self._loop = loop
        self._handle = handle
        self._unsent: list[Burst] = []
        """Taken from the bus when the network had no more room; at most one turn's worth."""
        self._turn: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        self._transport.start(self._received, self.flush)
        self.flush()

    def flush(self) -> None:
        """Soon, once: what the bus has to say and to send."""
        if self._turn is None and not self._closed:
            self._turn = self._loop.call_soon(self._run)

    def close(self) -> None:
        self._closed = True
        for handle in (self._turn, self._timer):
            if handle is not None:
                handle.cancel()
        self._transport.close()

    def _received(self, channel: int, data: bytes, segment: int, source: Place) -> None:
        try:
            self._bus.received(channel, data, segment, self._loop.time(), source)
        except Exception as error:
            # Anybody's bytes: whatever they find, it ends with them.
            self._faults.note("reading datagrams", error)
        self.flush()

    def _run(self) -> None:
        self._turn = None
        now = self._loop.time()
        if now >= self._bus.next_deadline():
            self._bus.tick(now)
        events = self._bus.take_events()
        if events:
            # What the owner sends in answer goes with this turn.
            self._handle(events)
        if not self._closed:
            self._send(now)

    def _send(self, now: float) -> None:
        bursts = self._unsent or self._bus.take_bursts(now)
        for number, burst in enumerate(bursts):
            if not self._transport.send(burst):
                self._unsent = bursts[number:]
                # The transport calls when there is room; until then the clock alone must not spin.
                self._wake_at(max(self._bus.next_deadline(), now + BUS_PROMPT_SECONDS))
                return
        self._unsent = []
        if bursts:
            # There may be more; what has come meanwhile is read first.
            self.flush()
        else:
            self._wake_at(self._bus.next_deadline())

    def _wake_at(self, at: float) -> None:
        if at == inf:
            return
        if self._timer is not None:
            if self._timer.when() <= at and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.flush()
