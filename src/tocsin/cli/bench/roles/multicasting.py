"""Nodes of a bus on this machine's loopback network: one sends to a channel's group, the others check what comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from tocsin.bus.machine import Bus, Delivered, Event, LostSync, MemberChanged, MemberState, Way, group_in
from tocsin.cli.bench.bodies import numbered, wrong_body
from tocsin.cli.bench.process import BenchFailed
from tocsin.node.loop import new_event_loop
from tocsin.runtime.aead import AesGcm
from tocsin.runtime.bus_loop import BusLoop
from tocsin.runtime.lossy import LossyTransport
from tocsin.runtime.multicast import MulticastChannel, MulticastTransport
from tocsin.runtime.udp import datagram_bytes

HOST = "127.0.0.1"
CHANNEL = 1
SENDER = 1
RECEIVERS = (2, 3)
# The benchmark's own: nothing that is worth a secret travels here.
SECRET = b"a secret of the benchmark, 32 B."
WAIT_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.001


class Node:
    """A bus with its sockets and its loop, run for as long as somebody waits for something."""

    def __init__(self, node: int, parameters: dict[str, Any], handle: Callable[[Sequence[Event]], None]) -> None:
        self.loop = new_event_loop()
        secret, suite = (SECRET, AesGcm()) if parameters["sealed"] else (None, None)
        self.bus = Bus(node, 1, Random(node).random, secret=secret, suite=suite)
        listens, speaks = ((Way.OUT,), (Way.IN,)) if node == SENDER else ((Way.IN,), (Way.IN, Way.OUT))
        self.bus.join(CHANNEL, listens=listens, speaks=speaks, datagram_bytes=datagram_bytes(parameters["mtu"]))
        transport = MulticastTransport(self.loop)
        ports = parameters["ports"]
        groups = {Way.IN: (parameters["groups"][0], ports[0]), Way.OUT: (parameters["groups"][1], ports[0])}
        transport.open(MulticastChannel(number=CHANNEL, groups=groups, interface=HOST, port=ports[node]), listens)
        for other in (SENDER, *RECEIVERS):
            transport.set_place(CHANNEL, other, (HOST, ports[other]))
        lossy = LossyTransport(transport, parameters["loss"] / 100, Random(node))
        self.driver = BusLoop(
            self.bus, lossy if parameters["loss"] and node != SENDER else transport, self.loop, handle
        )
        self.loop.call_soon(self.driver.start)

    def run_until(self, condition: Callable[[], bool], seconds: float) -> None:
        self.loop.run_until_complete(self._wait(condition, seconds))

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = self.loop.time() + seconds
        while not condition():
            if self.loop.time() > deadline:
                raise BenchFailed(f"The nodes of the bus waited for each other for more than {seconds:.0f} s.")
            await asyncio.sleep(_POLL_SECONDS)

    def others_up(self) -> int:
        return len(self.bus.members(CHANNEL))

    def close(self) -> None:
        self.driver.close()
        self.loop.close()


def send(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes sealed, mtu, loss, ports, groups, count, size, timeout_s. It is done when all is acknowledged."""
    address, timeout_s = group_in(CHANNEL), parameters["timeout_s"]
    bodies = numbered(parameters["count"], parameters["size"])
    waiting: list[bytes] = []
    sending = False

    def fill() -> None:
        while sending:
            body = waiting.pop() if waiting else next(bodies, None)
            if body is None:
                return
            if not node.bus.send(address, (body,)):
                waiting.append(body)
                return

    def handle(events: Sequence[Event]) -> None:
        fill()

    node = Node(SENDER, parameters, handle)
    try:
        yield {}
        node.run_until(lambda: node.others_up() == len(RECEIVERS), WAIT_SECONDS_MAX)
        node.bus.count(address, RECEIVERS)
        start, cpu, sending = time.monotonic_ns(), time.process_time(), True
        fill()
        node.driver.flush()
        node.run_until(lambda: node.bus.pending(address) == 0 and not waiting, timeout_s)
        report = {"start_ns": start, "stop_ns": time.monotonic_ns(), "cpu_s": time.process_time() - cpu}
        report["resent"] = node.bus.counters.resent
        yield report
    finally:
        node.close()


def receive(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes what the sender takes, and node. Checks every byte of every message."""
    count = parameters["count"]
    expected = numbered(count, parameters["size"])
    taken = 0
    stop_ns = 0
    sender_left = False

    def handle(events: Sequence[Event]) -> None:
        nonlocal taken, stop_ns, sender_left
        for event in events:
            if isinstance(event, Delivered):
                body, due = bytes(event.payload), next(expected, b"")
                if body != due:
                    raise_later(wrong_body(due, body))
                taken += 1
            elif isinstance(event, LostSync):
                raise_later(BenchFailed(f"Packets {event.first} to {event.resumed - 1} were lost for good."))
            elif isinstance(event, MemberChanged) and event.node == SENDER and event.state is MemberState.DOWN:
                sender_left = taken == count
        if taken == count and not stop_ns:
            stop_ns = time.monotonic_ns()

    errors: list[BenchFailed] = []
    raise_later = errors.append
    node = Node(parameters["node"], parameters, handle)
    try:
        yield {}
        cpu = time.process_time()
        # The sender may still miss an acknowledgement, so this node stays until the sender has gone.
        node.run_until(lambda: bool(errors) or sender_left, parameters["timeout_s"])
        if errors:
            raise errors[0]
        dropped = node.bus.counters
        yield {
            "stop_ns": stop_ns,
            "cpu_s": time.process_time() - cpu,
            "duplicates": dropped.duplicates,
            "requests": dropped.requests_out,
        }
    finally:
        node.close()
