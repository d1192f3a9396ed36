"""Durable, confirmed, pipelined, one producer: from the first send to the last confirmation."""

from __future__ import annotations

from tocsin.cli.bench.report import Result, rounded
from tocsin.cli.bench.settings import BATCH_DEFAULT, Settings
from tocsin.cli.bench.stage import CpuMeter, elapsed_s, open_stage, per_100k


def run(settings: Settings) -> Result:
    with open_stage(settings) as stage:
        producer = stage.crew.start(
            "publisher",
            destination=stage.queue(),
            count=settings.count,
            size=settings.size,
            mode=settings.mode,
            batch=BATCH_DEFAULT,
        )
        stage.crew.gather(producer)
        meter = CpuMeter(stage.server)
        (report,) = stage.crew.step(producer)
        cpu_s = meter.spent_s()
        seconds = elapsed_s([report])
        return Result(
            settings=settings,
            seconds=seconds,
            messages_per_second=settings.count / seconds,
            server_cpu_s_per_100k=per_100k(cpu_s, settings.count),
            server_rss_mib=stage.server.peak_mib(),
            more={"mode": str(settings.mode), "producer_cpu_s": rounded(report["cpu_s"], 3)},
        )
