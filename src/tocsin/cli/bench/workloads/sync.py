"""One message at a time, each confirmed before the next, against what disk and network alone would cost.

ratio = rate / (1 / (fdatasync + round trip)): 1 would be a server and a client that cost nothing. The round trip is one
of TCP over loopback, whichever way the messages take; `--local` shows what TCP costs them. One
producer sends in rounds, and disk and network are measured before each and after the last, since a machine that others
share changes from one second to the next. They are medians, and a rate knows its rare slow messages, too; so
`ratio_p50` compares medians with each other: (fdatasync + round trip) / p50. With several producers the rate is that of
all together, so group commit may lift the ratio far above 1, and the other one says nothing.
"""

from __future__ import annotations

from statistics import mean

from tocsin.cli.bench.floor import WARM_UP, round_trip_seconds, sync_seconds
from tocsin.cli.bench.report import Result, percentiles_us, rounded
from tocsin.cli.bench.settings import Settings
from tocsin.cli.bench.stage import CpuMeter, Stage, elapsed_s, open_stage, per_100k

ROUND_MESSAGES = 1_000
FLOOR_TRIES = 300


def run(settings: Settings) -> Result:
    # Many together share their waits, and a pause would only cost them their pace.
    rounds, warm_up = (max(1, settings.count // ROUND_MESSAGES), WARM_UP) if settings.producers == 1 else (1, 0)
    with open_stage(settings) as stage:
        one_core_s = round_trip_seconds(stage.crew, FLOOR_TRIES, one_core=True)
        sender = stage.crew.start(
            "one-by-one sender",
            destination=stage.queue(),
            count=settings.count,
            size=settings.size,
            producers=settings.producers,
            rounds=rounds,
            warm_up=warm_up,
        )
        stage.crew.gather(sender)
        meter = CpuMeter(stage.server)
        reports = []
        floors = [_floor_s(stage)]
        for _ in range(rounds):
            reports += stage.crew.step(sender)
            floors.append(_floor_s(stage))
        cpu_s = meter.spent_s()
        disk_s, network_s = map(mean, zip(*floors, strict=True))
        seconds = sum(elapsed_s([report]) for report in reports)
        rate = settings.count / seconds
        percentiles = percentiles_us(took for report in reports for took in report["took_ns"])
        floor_s = disk_s + network_s
        ratio_p50 = round(floor_s * 1e6 / (percentiles["p50_us"] or 1.0), 3)
        return Result(
            settings=settings,
            seconds=seconds,
            messages_per_second=rate,
            **percentiles,
            server_cpu_s_per_100k=per_100k(cpu_s, settings.count + warm_up * rounds),
            server_rss_mib=stage.server.peak_mib(),
            more={
                "producers": settings.producers,
                "fdatasync_us": round(disk_s * 1e6, 1),
                "round_trip_us": round(network_s * 1e6, 1),
                "round_trip_one_core_us": round(one_core_s * 1e6, 1),
                "ratio": round(rate * floor_s, 3),
                "ratio_p50": ratio_p50 if settings.producers == 1 else None,
                "producer_cpu_s": rounded(sum(report["cpu_s"] for report in reports), 3),
            },
        )


def _floor_s(stage: Stage) -> tuple[float, float]:
    return sync_seconds(stage.server.folder, FLOOR_TRIES), round_trip_seconds(stage.crew, FLOOR_TRIES)
