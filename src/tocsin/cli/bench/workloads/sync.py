"""One message at a time, each confirmed before the next, against what disk and network alone would cost.

ratio = rate / (1 / (fdatasync + round trip)): 1 would be a server and a client that cost nothing. Disk and network are
measured before and after the messages, since a machine that others share changes from one second to the next. With
several producers the rate is that of all together, so group commit may lift the ratio far above 1.
"""

from __future__ import annotations

from statistics import mean

from tocsin.cli.bench.floor import round_trip_seconds, sync_seconds
from tocsin.cli.bench.report import Result, percentiles_us, rounded
from tocsin.cli.bench.settings import Settings
from tocsin.cli.bench.stage import CpuMeter, Stage, elapsed_s, open_stage, per_100k


def run(settings: Settings) -> Result:
    with open_stage(settings) as stage:
        before = _floor_s(stage)
        one_core_s = round_trip_seconds(stage.crew, one_core=True)
        sender = stage.crew.start(
            "one-by-one sender",
            destination=stage.queue(),
            count=settings.count,
            size=settings.size,
            producers=settings.producers,
        )
        stage.crew.gather(sender)
        meter = CpuMeter(stage.server)
        (report,) = stage.crew.step(sender)
        cpu_s = meter.spent_s()
        after = _floor_s(stage)
        disk_s, network_s = map(mean, zip(before, after, strict=True))
        seconds = elapsed_s([report])
        rate = settings.count / seconds
        return Result(
            settings=settings,
            seconds=seconds,
            messages_per_second=rate,
            **percentiles_us(report["took_ns"]),
            server_cpu_s_per_100k=per_100k(cpu_s, settings.count),
            server_rss_mib=stage.server.peak_mib(),
            more={
                "producers": settings.producers,
                "fdatasync_us": round(disk_s * 1e6, 1),
                "round_trip_us": round(network_s * 1e6, 1),
                "round_trip_one_core_us": round(one_core_s * 1e6, 1),
                "ratio": round(rate * (disk_s + network_s), 3),
                "producer_cpu_s": rounded(report["cpu_s"], 3),
            },
        )


def _floor_s(stage: Stage) -> tuple[float, float]:
    return sync_seconds(stage.server.folder), round_trip_seconds(stage.crew)
