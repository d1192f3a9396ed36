"""One producer, four subscribers of a topic in four processes, each of which checks every message.

The rate counts deliveries: a message that four subscribers got is four.
"""

from __future__ import annotations

from tocsin.cli.bench.report import Result, rounded
from tocsin.cli.bench.settings import BATCH_DEFAULT, SUBSCRIBERS, Mode, Settings
from tocsin.cli.bench.stage import CpuMeter, elapsed_s, open_stage, per_100k


def run(settings: Settings) -> Result:
    with open_stage(settings) as stage:
        parameters = {
            "destination": stage.topic(),
            "count": settings.count,
            "size": settings.size,
            "mode": Mode.MANY,
            "batch": BATCH_DEFAULT,
        }
        subscribers = [stage.crew.start("consumer", **parameters) for _ in range(SUBSCRIBERS)]
        producer = stage.crew.start("publisher", **parameters)
        stage.crew.gather(*subscribers, producer)
        meter = CpuMeter(stage.server)
        *consumed, produced = stage.crew.step(*subscribers, producer)
        cpu_s = meter.spent_s()
        seconds = elapsed_s([produced, *consumed], start=[produced])
        deliveries = settings.count * SUBSCRIBERS
        return Result(
            settings=settings,
            seconds=seconds,
            messages_per_second=deliveries / seconds,
            server_cpu_s_per_100k=per_100k(cpu_s, settings.count),
            server_rss_mib=stage.server.peak_mib(),
            more={
                "subscribers": SUBSCRIBERS,
                "published_per_second": round(settings.count / elapsed_s([produced]), 1),
                "producer_cpu_s": rounded(produced["cpu_s"], 3),
                "server_cpu_s": rounded(cpu_s, 3),
                "consumers_cpu_s": rounded(sum(report["cpu_s"] for report in consumed), 3),
            },
        )
