"""One match behind many messages that do not match, while another destination's latency is measured.

The percentiles are of those messages of the other destination that were under way during the search; a server
that scans in one go would show here.
"""

from __future__ import annotations

import time

from tocsin.cli.bench.crew import Report
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.report import Result, percentiles_us
from tocsin.cli.bench.settings import Settings
from tocsin.cli.bench.stage import CpuMeter, elapsed_s, open_stage, per_100k

WARM_UP_SECONDS = 1.0
COOL_DOWN_SECONDS = 0.5
"""For comparison: the same traffic without a search."""


def run(settings: Settings) -> Result:
    # The sender is told to stop; the count only bounds it.
    others = int(settings.rate * settings.timeout_s)
    with open_stage(settings) as stage:
        crew, stored, other = stage.crew, stage.queue(".stored"), stage.queue(".other")
        filler = crew.start("filler", destination=stored, count=settings.count, size=settings.size)
        crew.gather(filler)
        (filled,) = crew.step(filler)

        searcher = crew.start("searcher", destination=stored, count=settings.count, timeout_s=settings.timeout_s)
        receiver = crew.start("latency receiver", destination=other)
        sender = crew.start("paced sender", destination=other, count=others, size=settings.size, rate=settings.rate)
        crew.gather(searcher, receiver, sender)
        crew.go(receiver, sender)
        time.sleep(WARM_UP_SECONDS)
        meter = CpuMeter(stage.server)
        (found,) = crew.step(searcher)
        cpu_s = meter.spent_s()
        time.sleep(COOL_DOWN_SECONDS)
        crew.go(sender)
        received, sent = crew.gather(receiver, sender)
        if len(received["latency_ns"]) != sent["sent"]:
            raise BenchFailed(f"{len(received['latency_ns']):,} of {sent['sent']:,} other messages came.")
        seconds = elapsed_s([found])
        during, outside = _split(received, found)
        return Result(
            settings=settings,
            seconds=seconds,
            messages_per_second=settings.count / seconds,
            **percentiles_us(during),
            server_cpu_s_per_100k=per_100k(cpu_s, settings.count),
            server_rss_mib=stage.server.peak_mib(),
            more={
                "rate": settings.rate,
                "other_messages_during_search": len(during),
                "other_p99_us_without_search": percentiles_us(outside)["p99_us"],
                "fill_per_second": round(settings.count / elapsed_s([filled]), 1),
            },
        )


def _split(received: Report, found: Report) -> tuple[list[int], list[int]]:
    """Latencies of messages under way while the search ran, and of those sent after it."""
    during, outside = [], []
    for sent, took in zip(received["sent_ns"], received["latency_ns"], strict=True):
        if sent > found["stop_ns"]:
            outside.append(took)
        elif sent + took >= found["start_ns"]:
            during.append(took)
    return during, outside
