"""Clients that send without end, or take nothing, cost a bounded amount of memory, and nobody else their rate."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from pathlib import Path

from tests.system.clusters import ClusterProcesses
from tests.system.processes import PATIENCE, ServerProcess, until
from tests.system.raw import SESSION, RawClient

import tocsin
from tocsin.wire.frames import FrameType, Outcome, Settle, control, write_settle

MIB = 1 << 20
FLOOD_BYTES = 24 * MIB
"""What cost more than 200 MiB once."""
GROWTH_MAX = 80 * MIB
BLOCKED_SECONDS = 5.0
SLICE_SECONDS = 2.0


def resident(process: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def rate(session: tocsin.Session, queue: str, seconds: float = SLICE_SECONDS) -> float:
    """Messages a second, there and back, one at a time."""
    producer, consumer = session.producer(session.queue(queue)), session.consumer(session.queue(queue))
    began, count = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        producer.send("x")
        assert consumer.receive_body(str, timeout=PATIENCE) == "x"
        count += 1
    producer.close()
    consumer.close()
    return count / (time.monotonic() - began)


def flood(client: RawClient, data: bytes, total: int) -> int:
    """Sends as much as is taken, up to a total; returns how much that was."""
    sent = 0
    client.patience(BLOCKED_SECONDS)
    while sent < total:
        taken = client.send_some(data[sent % len(data) :])
        if not taken:
            break
        sent += taken
    client.patience(PATIENCE)
    return sent


def place_queues(cluster: ClusterProcesses, connection: tocsin.Connection) -> dict[int, str]:
    """A queue in each of the two groups."""
    found: dict[int, str] = {}
    counts = [group["destinations"] for group in cluster.status()["groups"]]
    for number in range(50):
        connection.create_destination(f"queue:q{number}")
        wanted = sum(counts) + 1
        status = cluster.wait_for(
            lambda status, wanted=wanted: sum(each["destinations"] or 0 for each in status["groups"]) >= wanted,  # type: ignore[misc]
            "the groups count the new queue",
        )
        now = [group["destinations"] for group in status["groups"]]
        for place, (before, after) in enumerate(zip(counts, now, strict=True)):
            if after > before:
                found.setdefault(place, f"q{number}")
        counts = now
        if len(found) == 2:
            return found
    raise AssertionError(f"fifty queues are all in one group: {found}")


def settlements(consumer: int) -> bytes:
    one = [
        write_settle(SESSION, Settle(consumer, Outcome.ACKNOWLEDGE, number, [(0, 1)])) for number in range(1, 20_001)
    ]
    return b"".join(one)


def test_a_group_without_a_primary_costs_a_bounded_amount_and_nobody_else_their_rate(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster") as cluster, ExitStack() as stack:
        cluster.wait_for(lambda status: all(each["primary"] for each in status["groups"]), "both groups have a primary")
        config = cluster.directory.config
        manager = next(node for node in config.nodes if node.client)
        process = cluster.directory.process(manager.name).pid()
        assert process is not None and manager.client is not None
        connection = stack.enter_context(tocsin.connect(cluster.url_of(manager.name)))
        session = stack.enter_context(connection.session())
        queues = place_queues(cluster, connection)
        before = rate(session, queues[0])
        port = int(manager.client.rsplit(":", 1)[1])
        settling, asking = (stack.enter_context(RawClient(port)) for _ in range(2))
        for client in (settling, asking):
            client.login()
            client.ask("session.open", 0, session=SESSION)
            client.ask("consumer.open", consumer=1, destination=f"queue:{queues[1]}", messages=10, bytes=10_000)
        for member in config.groups[1].members:
            cluster.directory.kill(member)
        gone = lambda: not connection.cluster_status()["groups"][1]["linked"]  # noqa: E731
        until(gone, "the client manager notices that the group is gone")
        start = resident(process)
        sent = flood(settling, settlements(1), FLOOD_BYTES)
        fields = {"op": "destination.show", "destination": f"queue:{queues[1]}"}
        asked = flood(
            asking,
            b"".join(control(FrameType.REQUEST, SESSION, {"id": number, **fields}) for number in range(10, 20_010)),
            FLOOD_BYTES,
        )
        grown = resident(process) - start
        during = rate(session, queues[0])
        said = f"{sent / MIB:.1f} + {asked / MIB:.1f} MiB sent, {grown / MIB:.1f} MiB grown"
        said += f"; {before:.0f}/s, then {during:.0f}/s"
        assert grown < GROWTH_MAX, said
        assert during > before / 3, said
        cluster.check_logs()


def test_clients_that_take_nothing_of_what_they_ask_for_cost_a_bounded_amount(tmp_path: Path) -> None:
    readers = 3
    with ServerProcess(tmp_path / "server") as server, ExitStack() as stack:
        connection = stack.enter_context(tocsin.connect(server.url))
        session = stack.enter_context(connection.session())
        for number in range(readers):
            session.producer(session.queue(f"much{number}")).send_many([b"x" * 64_000] * 950)
        before = rate(session, "other")
        start = resident(server.number)
        for number in range(readers):
            stalled = stack.enter_context(RawClient(server.port, receive_buffer=4_096))
            stalled.login()
            stalled.ask("session.open", 0, session=SESSION)
            credit = {"messages": 60_000, "bytes": 2**40}
            stalled.request("consumer.open", consumer=1, destination=f"queue:much{number}", mode="browse", **credit)
        during = rate(session, "other")
        grown = resident(server.number) - start
        said = f"{readers} readers of 58 MiB each: {grown / MIB:.1f} MiB grown; {before:.0f}/s, then {during:.0f}/s"
        assert grown < GROWTH_MAX, said
        assert during > before / 3, said
        server.check_log()
