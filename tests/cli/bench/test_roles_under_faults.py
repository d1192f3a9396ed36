"""Roles that go on while the server dies: what they report is what happened."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.cli.bench.crew import Crew
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.server import OwnServer
from tocsin.cli.bench.workloads.failover import pauses_s

QUEUE = "queue:steadfast"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnServer]:
    server = OwnServer(tmp_path)
    server.start()
    try:
        server.wait_until_listening()
        yield server
    finally:
        server.stop()


def test_a_steadfast_pair_lives_through_a_kill(server: OwnServer) -> None:
    with Crew(server, timeout_s=60) as crew:
        receiver = crew.start("steadfast receiver", destination=QUEUE)
        sender = crew.start("steadfast sender", destination=QUEUE, size=100, rate=500)
        crew.gather(receiver, sender)
        crew.go(receiver, sender)
        crew.watch(0.5)
        killed_ns = time.monotonic_ns()
        server.kill()
        server.start()
        server.wait_until_listening()
        crew.watch(0.5)
        crew.go(sender)
        sent, received = crew.gather(sender, receiver)
    assert len(sent["sent_ns"]) == len(sent["confirmed_ns"]) == received["came"] > 100
    assert (received["missing"], received["unmarked"], received["disorder"]) == ([], 0, 0)
    (pause_s,) = pauses_s([killed_ns], sent["sent_ns"], sent["confirmed_ns"])
    assert 0.05 < pause_s < 20, "a start takes a moment"
    assert all(then < when for then, when in zip(sent["sent_ns"], sent["confirmed_ns"], strict=True))


def test_an_unceasing_pair_ends_when_it_is_told(server: OwnServer) -> None:
    with Crew(server, timeout_s=60) as crew:
        parameters = {"destination": QUEUE, "permits": "queue:permits", "size": 50}
        receiver, sender = (crew.start(f"unceasing {role}", **parameters) for role in ("receiver", "sender"))
        crew.gather(receiver, sender)
        crew.go(receiver, sender)
        crew.watch(1.0)
        crew.go(sender)
        sent, received = crew.gather(sender, receiver)
    assert received["taken"] == sent["sent"] > 0


def test_whoever_watches_sees_a_worker_fail(server: OwnServer) -> None:
    with Crew(server, timeout_s=60) as crew:
        crew.start("steadfast sender", destination="nonsense:x", size=100, rate=500)
        with pytest.raises(BenchFailed, match="steadfast sender process failed"):
            crew.watch(20.0)
