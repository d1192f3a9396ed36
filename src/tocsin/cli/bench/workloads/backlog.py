"""Publish all, then consume all: what a long queue costs in memory, and how fast it is worked off."""

from __future__ import annotations

from tocsin.cli.bench.report import Result
from tocsin.cli.bench.settings import Mode, Settings
from tocsin.cli.bench.stage import CpuMeter, elapsed_s, open_stage, per_100k


def run(settings: Settings) -> Result:
    with open_stage(settings) as stage:
        parameters = {
            "destination": stage.queue(),
            "count": settings.count,
            "size": settings.size,
            "mode": Mode.MANY,
            "batch": settings.batch,
        }
        producer = stage.crew.start("publisher", **parameters)
        stage.crew.gather(producer)
        meter = CpuMeter(stage.server)
        (produced,) = stage.crew.step(producer)
        backlog_mib = stage.server.rss_mib()
        # The consumer is opened only now: it would begin to fetch.
        consumer = stage.crew.start("consumer", **parameters)
        stage.crew.gather(consumer)
        (consumed,) = stage.crew.step(consumer)
        cpu_s = meter.spent_s()
        publish_s, consume_s = elapsed_s([produced]), elapsed_s([consumed])
        return Result(
            settings=settings,
            seconds=publish_s + consume_s,
            messages_per_second=settings.count / (publish_s + consume_s),
            server_cpu_s_per_100k=per_100k(cpu_s, settings.count),
            server_rss_mib=stage.server.peak_mib(),
            more={
                "batch": settings.batch,
                "publish_per_second": round(settings.count / publish_s, 1),
                "consume_per_second": round(settings.count / consume_s, 1),
                "server_rss_backlog_mib": backlog_mib,
            },
        )
