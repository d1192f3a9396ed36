"""End to end at a fixed rate, from the call that sends to the message in the consumer's hand.

times_floor = p50 / (fdatasync + round trip), both measured at the same rate in the same run; beside them what they cost
without pauses.
"""

from __future__ import annotations

from tocsin.cli.bench.floor import round_trip_seconds, sync_seconds
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.report import Result, percentiles_us
from tocsin.cli.bench.settings import Settings
from tocsin.cli.bench.stage import CpuMeter, Stage, elapsed_s, open_stage, per_100k

WARM_UP_SECONDS = 1
FLOOR_TRIES = 400


def run(settings: Settings) -> Result:
    warm_up = settings.rate * WARM_UP_SECONDS
    total = settings.count + warm_up
    with open_stage(settings) as stage:
        queue = stage.queue()
        busy_us = _floor_us(stage, 0.0)
        paced_us = _floor_us(stage, 1 / settings.rate)
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
        percentiles = percentiles_us(received["latency_ns"][warm_up:])
        return Result(
            settings=settings,
            seconds=seconds,
            messages_per_second=total / seconds,
            **percentiles,
            server_cpu_s_per_100k=per_100k(cpu_s, total),
            server_rss_mib=stage.server.peak_mib(),
            more={
                "rate": settings.rate,
                "warm_up_messages": warm_up,
                "fdatasync_us": paced_us[0],
                "round_trip_us": paced_us[1],
                "times_floor": round((percentiles["p50_us"] or 0.0) / sum(paced_us), 2),
                "fdatasync_busy_us": busy_us[0],
                "round_trip_busy_us": busy_us[1],
            },
        )


def _floor_us(stage: Stage, pause_s: float) -> tuple[float, float]:
    disk_s = sync_seconds(stage.server.folder, FLOOR_TRIES, pause_s)
    network_s = round_trip_seconds(stage.crew, FLOOR_TRIES, pause_s)
    return round(disk_s * 1e6, 1), round(network_s * 1e6, 1)
