"""kill -9 of a primary at a steady rate of messages, again and again: how long until a publish is confirmed again.

The time of one run is from the kill to the first confirmation of a message that was sent after it: a confirmation that
was already under way proves nothing. Before each kill all nodes are well again.
"""

from __future__ import annotations

import time
from bisect import bisect_left

from tocsin.cli.bench.cluster import OwnCluster, own_cluster
from tocsin.cli.bench.crew import Crew, Report
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.report import Result
from tocsin.cli.bench.settings import Settings
from tocsin.cli.bench.shape import LOCAL

DESTINATION = "queue:bench.failover"
STEADY_SECONDS = 1.0
"""Of undisturbed traffic before each kill."""


def run(settings: Settings) -> Result:
    shape = settings.cluster or LOCAL
    with (
        own_cluster(shape.client_managers, shape.members, str(settings.profile)) as cluster,
        Crew(cluster, settings.timeout_s) as crew,
    ):
        receiver = crew.start("steadfast receiver", destination=DESTINATION)
        sender = crew.start("steadfast sender", destination=DESTINATION, size=settings.size, rate=settings.rate)
        crew.gather(receiver, sender)
        crew.go(receiver, sender)
        killed_ns = [_kill_primary(cluster, crew) for _ in range(settings.runs)]
        crew.go(sender)
        sent, received = crew.gather(sender, receiver)
    return result(settings, killed_ns, sent, received)


def _kill_primary(cluster: OwnCluster, crew: Crew) -> int:
    cluster.wait_until_well()
    crew.watch(STEADY_SECONDS)
    primary = cluster.primary()
    if primary is None:
        raise BenchFailed("The group lost its primary although nobody had killed it.")
    moment = time.monotonic_ns()
    cluster.kill(primary)
    cluster.wait_until(lambda: cluster.primary() is not None, "has a new primary")
    cluster.start(primary)
    return moment


def result(settings: Settings, killed_ns: list[int], sent: Report, received: Report) -> Result:
    took_s = sorted(pauses_s(killed_ns, sent["sent_ns"], sent["confirmed_ns"]))
    confirmed = len(sent["confirmed_ns"])
    lost = len(received["missing"]) + max(0, confirmed - received["came"])
    seconds = (sent["confirmed_ns"][-1] - sent["sent_ns"][0]) / 1e9
    return Result(
        settings=settings,
        seconds=seconds,
        messages_per_second=confirmed / seconds,
        more={
            "profile": str(settings.profile),
            "runs": len(took_s),
            "p50_s": round(took_s[(len(took_s) - 1) // 2], 3),
            "max_s": round(took_s[-1], 3),
            "lost": lost,
            "duplicates": received["unmarked"],
            "redelivered": received["again"],
            "out_of_order": received["disorder"],
        },
    )


def pauses_s(killed_ns: list[int], sent_ns: list[int], confirmed_ns: list[int]) -> list[float]:
    """For each kill the time to the first confirmation of a message that was sent after it."""
    pauses = []
    for killed in killed_ns:
        first = bisect_left(sent_ns, killed)
        if first >= len(confirmed_ns):
            raise BenchFailed("No message was confirmed after the last kill.")
        pauses.append((confirmed_ns[first] - killed) / 1e9)
    return pauses
