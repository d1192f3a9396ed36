"""End to end at a fixed rate, from the call that sends to the message in the consumer's hand."""

from __future__ import annotations

from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.report import Result, percentiles_us
from tocsin.cli.bench.settings import Settings
from tocsin.cli.bench.stage import CpuMeter, elapsed_s, open_stage, per_100k

WARM_UP_SECONDS = 1


def run(settings: Settings) -> Result:
    warm_up = settings.rate * WARM_UP_SECONDS
    total = settings.count + warm_up
    with open_stage(settings) as stage:
        queue = stage.queue()
        receiver = stage.crew.start("latency receiver", destination=queue)
        sender = stage.crew.start(
            "paced sender", destination=queue, count=total, size=settings.size, rate=settings.rate
        )
        stage.crew.gather(receiver, sender)
        meter = CpuMeter(stage.server)
        received, sent = stage.crew.step(receiver, sender)
        cpu_s = meter.spent_s()
        if len(received["latency_ns"]) != total:
            raise BenchFailed(f"{len(received['latency_ns']):,} of {total:,} messages came.")
        seconds = elapsed_s([sent])
        return Result(
            settings=settings,
            seconds=seconds,
            messages_per_second=total / seconds,
            **percentiles_us(received["latency_ns"][warm_up:]),
            server_cpu_s_per_100k=per_100k(cpu_s, total),
            server_rss_mib=stage.server.peak_mib(),
            more={"rate": settings.rate, "warm_up_messages": warm_up},
        )
