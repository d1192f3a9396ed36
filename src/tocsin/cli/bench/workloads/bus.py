"""The bus alone: one sender, two receivers in three processes, over multicast on the loopback network.

Measured twice, sealed (authenticated and encrypted) and plain. The rate counts the payload once, however many receive
it, from the first send to the last message at the slower receiver.
"""

from __future__ import annotations

import os
import socket

from tocsin.cli.bench.crew import Crew, Report
from tocsin.cli.bench.report import Result, rounded
from tocsin.cli.bench.roles.multicasting import HOST, RECEIVERS, SENDER
from tocsin.cli.bench.server import ForeignServer
from tocsin.cli.bench.settings import Settings

MB = 1_000_000


def run(settings: Settings) -> Result:
    sealed_s, sealed = _measure(settings, sealed=True)
    plain_s, _ = _measure(settings, sealed=False)
    payload = settings.size * settings.count
    sent, *received = sealed
    return Result(
        settings=settings,
        seconds=sealed_s,
        messages_per_second=settings.count / sealed_s,
        more={
            "mtu": settings.mtu,
            "loss_percent": settings.loss,
            "receivers": len(RECEIVERS),
            "payload_mb_per_second": round(payload / sealed_s / MB, 1),
            "plain_mb_per_second": round(payload / plain_s / MB, 1),
            "packets_sent_again": sent["resent"],
            "sender_cpu_s": rounded(sent["cpu_s"], 3),
            "receivers_cpu_s": rounded(sum(report["cpu_s"] for report in received), 3),
        },
    )


def _measure(settings: Settings, *, sealed: bool) -> tuple[float, list[Report]]:
    """Seconds, and the reports of the sender and the receivers."""
    ports, groups = _free_ports(1 + len((SENDER, *RECEIVERS))), _groups()
    parameters = {
        "sealed": sealed,
        "mtu": settings.mtu,
        "loss": settings.loss,
        "count": settings.count,
        "size": settings.size,
        "ports": ports,
        "groups": groups,
        "timeout_s": settings.timeout_s,
    }
    with Crew(ForeignServer(""), settings.timeout_s) as crew:
        receivers = [crew.start("bus receiver", node=node, **parameters) for node in RECEIVERS]
        sender = crew.start("bus sender", **parameters)
        crew.gather(sender, *receivers)
        crew.go(*receivers)
        (sent,) = crew.step(sender)
        # Told to go on, the sender leaves, which is what the receivers wait for.
        crew.go(sender)
        received = crew.gather(*receivers)
    seconds = (max(report["stop_ns"] for report in received) - sent["start_ns"]) / 1e9
    return seconds, [sent, *received]


def _groups() -> tuple[str, str]:
    """Two multicast addresses of this run: another one on the same machine has others."""
    number = os.getpid()
    return tuple(f"239.{way}.{number >> 8 & 255}.{number & 255}" for way in (77, 78))  # type: ignore[return-value]


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
