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
        spent_s = meter.spent_by_process()
        cpu_s = sum(spent_s.values()) if spent_s else None
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
                **_of_nodes(settings, spent_s),
            },
        )


def _of_nodes(settings: Settings, spent_s: dict[str, float]) -> dict[str, object]:
    """What each node of a cluster has spent."""
    if settings.cluster is None:
        return {}
    return {
        "cluster": str(settings.cluster),
        **{f"{name}_cpu_s": round(seconds, 3) for name, seconds in spent_s.items()},
    }
