"""Everything that leaves this node: which address has what to send, in what order, grouped into bursts.

First what belongs to no stream (heartbeats, acknowledgements, requests), then control, then packets that are sent
again, then new data, the addresses by turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import NamedTuple

from tocsin.bus.core import Core
from tocsin.bus.datagram import INNER_BYTES, Flow, Kind, Stream, prefix_of
from tocsin.bus.events import RoomAgain
from tocsin.bus.outgoing import OutFlow, OutStream
from tocsin.bus.reports import Acknowledged, Request, Status, write_status
from tocsin.bus.sealing import Sealer
from tocsin.model.limits import (
    BUS_BURST_BYTES_MAX,
    BUS_BURST_DATAGRAMS_MAX,
    BUS_WAITING_BYTES,
)
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import Address, Burst, Way

Heard = Callable[[int], Sequence[int]]
"""The salts of the incarnations that this node hears on a channel."""


class _Ended(NamedTuple):
    """A flow that ended, and how far its streams had come."""

    target_salt: int
    highs: dict[Stream, int]


class Sending:
    __slots__ = ("_core", "_ended", "_ready", "_sealers", "flows")

    def __init__(self, core: Core) -> None:
        self._core = core
        self.flows: dict[Address, OutFlow] = {}
        # Both are kept when a flow ends: neither a counter under one key nor a sequence in one stream begins again.
        self._sealers: dict[Address, Sealer] = {}
        self._ended: dict[Address, _Ended] = {}
        self._ready: dict[Address, OutFlow] = {}
        """Flows that may have packets to send; served by turns."""

    def open(self, address: Address, datagram_bytes: int, target_salt: int = 0) -> OutFlow:
        core = self._core
        sealer = self._sealers.get(address)
        if sealer is None:
            prefix = prefix_of(Flow(core.keys.sealing, address, core.node, core.boot, core.salt))
            sealer = self._sealers[address] = Sealer(core.keys, prefix)
        before = self._ended.pop(address, None)
        after = before.highs if before is not None and before.target_salt == target_salt else {}
        flow = OutFlow(address, target_salt, sealer, core.settings, after)
        flow.resize(datagram_bytes, core.keys.overhead)
        self.flows[address] = flow
        self._ready.pop(address, None)
        return flow

    def close(self, address: Address) -> None:
        flow = self.flows.pop(address)
        self._ended[address] = _Ended(flow.target_salt, flow.highs())
        self._ready.pop(address, None)

    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream) -> bool:
        flow = self.flows.get(address)
        if flow is None or not flow.open:
            return False
        out = flow.streams[stream]
        if not out.room():
            out.refused = True
            return False
        out.outbox.add(parts)
        self._core.counters.messages_out += 1
        self._ready[address] = flow
        return True

    def count(self, address: Address, nodes: Iterable[int]) -> None:
        flow = self.flows[address]
        nodes = frozenset(nodes)
        for out in flow.streams.values():
            out.congestion.released(out.window.count(nodes))
        self._ready[address] = flow

    def acknowledged(self, address: Address, node: int, report: Acknowledged) -> None:
        flow = self.flows.get(address)
        if flow is None:
            return
        out = flow.streams[report.stream]
        released = out.window.acknowledge(node, report.position)
        if released:
            out.congestion.released(released)
            if out.outbox:
                self._ready[address] = flow

    def requested(self, address: Address, node: int, request: Request, now: float) -> None:
        """A receiver misses packets; if some of them are gone it is told soon where we stand."""
        flow = self.flows.get(address)
        if flow is None:
            return
        self._core.counters.requests_in += 1
        out = flow.streams[request.stream]
        gone = False
        for first, last in request.ranges:
            gone |= out.resend.ask(first, last, out.window, now)
        if node in out.window.counted:
            out.congestion.lost(now)
        if gone:
            flow.speak_soon(now)
            self._core.wake(flow.status_at())
        self._ready[address] = flow

    def forget(self, channel: int, node: int) -> None:
        """A node's incarnation has ended: what it acknowledged means nothing for the next one."""
        for address, flow in self.flows.items():
            if address.channel == channel and address.way is not Way.NODE:
                for out in flow.streams.values():
                    out.window.forget(node)

    def speak_soon(self, channel: int, now: float) -> None:
        """Someone new is there: a heartbeat shows where we stand, and that we hear it."""
        for address, flow in self.flows.items():
            if address.channel == channel and flow.heartbeat_at < inf:
                flow.speak_soon(now)
                self._core.wake(flow.status_at())

    def next_deadline(self) -> float:
        deadline = inf
        for flow in self.flows.values():
            deadline = min(deadline, flow.status_at())
            for out in flow.streams.values():
                if out.resend:
                    deadline = min(deadline, out.resend.ready_at(out.window))
        return deadline

    def tick(self) -> None:
        """What waited for the rate of resending may go on."""
        for address, flow in self.flows.items():
            if any(out.resend for out in flow.streams.values()):
                self._ready[address] = flow

    def statuses(self, now: float, heard: Heard, bursts: list[Burst]) -> None:
        for flow in self.flows.values():
            if flow.status_due(now):
                bursts.append(self.status(flow, now, heard(flow.address.channel)))

    def status(self, flow: OutFlow, now: float, heard: Sequence[int], *, leaving: bool = False) -> Burst:
        flow.status_sent(now)
        self._core.wake(flow.status_at())
        named = heard if flow.address.way is not Way.NODE else ()
        positions = [out.position() for out in flow.streams.values()]
        return self.single(flow, Kind.STATUS, write_status(Status(leaving, positions, named)))

    def single(self, flow: OutFlow, kind: Kind, content: bytes) -> Burst:
        datagram = flow.report(kind, content)
        self._core.counters.datagrams_out += 1
        return Burst(flow.address, (datagram,), sum(map(len, datagram)))

    def packets(self, now: float, limit: int, bursts: list[Burst]) -> None:
        """Adds bursts of packets, about `limit` bytes of them; what is left stays ready."""
        for flow in self._ready.values():
            # Bounded by the outbox of the control stream, and never held up by the limit.
            while taken := self._burst(flow, flow.streams[Stream.CONTROL], now, bursts):
                limit -= taken
        while limit > 0 and self._ready:
            for address in list(self._ready):
                flow = self._ready.pop(address)
                taken = self._burst(flow, flow.streams[Stream.DATA], now, bursts)
                limit -= taken
                if taken and flow.streams[Stream.DATA].has_work:
                    # At the end again: the others come first.
                    self._ready[address] = flow
                else:
                    self._rest(flow)
                if limit <= 0:
                    break

    def _rest(self, flow: OutFlow) -> None:
        """Nothing can go now; what waits only for the rate of resending is woken by the clock."""
        for out in flow.streams.values():
            if out.resend:
                self._core.wake(out.resend.ready_at(out.window))

    def _burst(self, flow: OutFlow, out: OutStream, now: float, bursts: list[Burst]) -> int:
        """Adds what one system call can carry of one stream, rarely in more bursts than one; returns its bytes."""
        core = self._core
        overhead = core.keys.overhead + INNER_BYTES
        count = min(BUS_BURST_DATAGRAMS_MAX, BUS_BURST_BYTES_MAX // (flow.capacity + overhead))
        datagrams: list[Sequence[Bytes]] = []
        lengths: list[int] = []
        while out.resend and len(datagrams) < count:
            found = out.resend.next(out.window, now)
            if found is None:
                break
            sequence, packet = found
            datagrams += flow.packets(out.stream, sequence, (packet,))
            lengths.append(packet[1] + overhead)
            core.counters.resent += 1
        if out.outbox and len(datagrams) < count:
            first, packets = out.take_new(flow.capacity, count - len(datagrams))
            if packets:
                datagrams += flow.packets(out.stream, first, packets)
                lengths += [length + overhead for _, length in packets]
                flow.sent_new(now)
                core.wake(flow.status_at())
        if not datagrams:
            return 0
        total = sum(lengths)
        core.counters.datagrams_out += len(datagrams)
        core.counters.payload_bytes_out += total - overhead * len(lengths)
        if out.refused and out.room() > BUS_WAITING_BYTES // 2:
            out.refused = False
            core.events.append(RoomAgain(flow.address, out.stream))
        _group(flow.address, datagrams, lengths, bursts)
        return total


def _group(address: Address, datagrams: Sequence[Sequence[Bytes]], lengths: Sequence[int], bursts: list[Burst]) -> None:
    """Datagrams of one length follow each other in a burst; a shorter one ends it."""
    if min(lengths[:-1], default=lengths[0]) == max(lengths) <= BUS_BURST_BYTES_MAX // len(lengths):
        bursts.append(Burst(address, datagrams, lengths[0]))
        return
    group: list[Sequence[Bytes]] = []
    segment = total = 0
    ended = True
    for length, datagram in zip(lengths, datagrams, strict=True):
        if ended or length > segment or total + length > BUS_BURST_BYTES_MAX:
            group, segment, total = [], length, 0
            bursts.append(Burst(address, group, segment))
        group.append(datagram)
        total += length
        ended = length < segment
