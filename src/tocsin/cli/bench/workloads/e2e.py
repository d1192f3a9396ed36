"""One producer, one consumer: from the first send to the last confirmed acknowledgement, all checked."""

from __future__ import annotations

from tocsin.cli.bench.report import Result, rounded
from tocsin.cli.bench.settings import BATCH_DEFAULT, Settings
from tocsin.cli.bench.stage import CpuMeter, elapsed_s, open_stage, per_100k


def run(settings: Settings) -> Result:
    with open_stage(settings) as stage:
        parameters = {
            "destination": stage.queue(),
            "count": settings.count,
            "size": settings.size,
            "mode": settings.mode,
            "batch": BATCH_DEFAULT,
        }
        consumer = stage.crew.start("consumer", **parameters)
        producer = stage.crew.start("publisher", **parameters)
        stage.crew.gather(consumer, producer)
        meter = CpuMeter(stage.server)
        consumed, produced = stage.crew.step(consumer, producer)
        cpu_s = meter.spent_s()
        seconds = elapsed_s([produced, consumed], start=[produced])
        return Result(
            settings=settings,
            seconds=seconds,
            messages_per_second=settings.count / seconds,
            server_cpu_s_per_100k=per_100k(cpu_s, settings.count),
            server_rss_mib=stage.server.peak_mib(),
            more={
                "mode": str(settings.mode),
                "producer_cpu_s": rounded(produced["cpu_s"], 3),
                "server_cpu_s": rounded(cpu_s, 3),
                "consumer_cpu_s": rounded(consumed["cpu_s"], 3),
            },
        )
