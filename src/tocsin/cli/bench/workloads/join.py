"""A backup with an empty disk joins a group that has stored many messages, while others are published.

The group begins with that member dead and without its disk. What counts is the longest time without a confirmation
from its start until it is in sync.
"""

from __future__ import annotations

import time
from itertools import pairwise

from tocsin.cli.bench.cluster import OwnCluster, made_cluster, shaped
from tocsin.cli.bench.crew import Crew, Member
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.report import Result
from tocsin.cli.bench.settings import BATCH_DEFAULT, Mode, Settings
from tocsin.cli.bench.shape import LOCAL
from tocsin.cli.bench.stage import elapsed_s

STORED = "queue:bench.join.stored"
LIVE = "queue:bench.join.live"
STEADY_SECONDS = 1.0


def run(settings: Settings) -> Result:
    shape = settings.cluster or LOCAL
    with made_cluster(shaped(shape.client_managers, shape.members, str(settings.profile))) as cluster:
        newcomer = cluster.members[-1]
        _start_without(cluster, newcomer)
        with Crew(cluster, settings.timeout_s) as crew:
            filled_s = _fill(settings, crew)
            receiver = crew.start("steadfast receiver", destination=LIVE)
            sender = crew.start("steadfast sender", destination=LIVE, size=settings.size, rate=settings.rate)
            crew.gather(receiver, sender)
            crew.go(receiver, sender)
            crew.watch(STEADY_SECONDS)
            began_ns = time.monotonic_ns()
            cluster.start(newcomer)
            cluster.wait_until_well(settings.timeout_s)
            joined_ns = time.monotonic_ns()
            crew.watch(STEADY_SECONDS)
            return _result(settings, crew, sender, receiver, began_ns, joined_ns, filled_s)


def _start_without(cluster: OwnCluster, newcomer: str) -> None:
    """The others go on alone; the disk that was named in the first configuration never comes back."""
    cluster.lose_disk(newcomer)
    cluster.start(*(name for name in cluster.names if name != newcomer))
    number = cluster.config.node(newcomer).number

    def goes_on_alone() -> bool:
        primary = cluster.primary()
        report = None if primary is None else cluster.report(primary)
        return report is not None and number not in report.in_sync

    cluster.wait_until(goes_on_alone, "goes on without the newcomer")


def _fill(settings: Settings, crew: Crew) -> float:
    publisher = crew.start(
        "publisher",
        destination=STORED,
        count=settings.count,
        size=settings.size,
        mode=Mode.MANY,
        batch=BATCH_DEFAULT,
    )
    crew.gather(publisher)
    (published,) = crew.step(publisher)
    return elapsed_s([published])


def _result(
    settings: Settings, crew: Crew, sender: Member, receiver: Member, began_ns: int, joined_ns: int, filled_s: float
) -> Result:
    crew.go(sender)
    sent, received = crew.gather(sender, receiver)
    if received["missing"] or received["came"] < len(sent["confirmed_ns"]):
        raise BenchFailed(f"Messages were lost meanwhile: {len(received['missing'])} or more.")
    seconds = (joined_ns - began_ns) / 1e9
    return Result(
        settings=settings,
        seconds=seconds,
        messages_per_second=settings.count / seconds,
        more={
            "rate": settings.rate,
            "stored": settings.count,
            "join_s": round(seconds, 3),
            "longest_pause_s": longest_pause_s(sent["confirmed_ns"], began_ns, joined_ns),
            "published_meanwhile": sum(began_ns <= each <= joined_ns for each in sent["confirmed_ns"]),
            "fill_per_second": round(settings.count / filled_s, 1),
        },
    )


def longest_pause_s(confirmed_ns: list[int], began_ns: int, ended_ns: int) -> float:
    """Between two confirmations, the last one before the beginning and the first one after the end included."""
    before = [each for each in confirmed_ns if each < began_ns][-1:]
    after = [each for each in confirmed_ns if each > ended_ns][:1]
    moments = [*before, *(each for each in confirmed_ns if began_ns <= each <= ended_ns), *after]
    if len(moments) < 2 or not after:
        raise BenchFailed("Nothing was confirmed while the newcomer joined.")
    return round(max(later - earlier for earlier, later in pairwise(moments)) / 1e9, 3)
