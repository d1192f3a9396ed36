"""Publish, kill -9, restart: the time to the first delivery. Then everything is read and checked."""

from __future__ import annotations

import time

from tocsin.cli.bench.crew import Crew
from tocsin.cli.bench.report import Result
from tocsin.cli.bench.server import own_server
from tocsin.cli.bench.settings import Mode, Settings
from tocsin.cli.bench.stage import elapsed_s, per_100k

DESTINATION = "queue:bench.recovery"


def run(settings: Settings) -> Result:
    assert settings.url is None, "this workload kills its server"
    with own_server() as server, Crew(server, settings.timeout_s) as crew:
        parameters = {
            "destination": DESTINATION,
            "count": settings.count,
            "size": settings.size,
            "batch": settings.batch,
        }
        producer = crew.start("publisher", mode=Mode.MANY, **parameters)
        crew.gather(producer)
        (produced,) = crew.step(producer)
        before_mib = server.rss_mib()
        receiver = crew.start("first receiver", port=server.port, timeout_s=settings.timeout_s, **parameters)
        crew.gather(receiver)

        server.kill()
        killed_ns = time.monotonic_ns()
        server.start()
        (first,) = crew.step(receiver)
        after_mib, cpu_s = server.rss_mib(), server.cpu_s()
        crew.step(receiver)
        seconds = (first["stop_ns"] - killed_ns) / 1e9
        return Result(
            settings=settings,
            seconds=seconds,
            messages_per_second=settings.count / seconds,
            server_cpu_s_per_100k=per_100k(cpu_s, settings.count),
            server_rss_mib=server.peak_mib(),
            more={
                "batch": settings.batch,
                "listening_seconds": round((first["listening_ns"] - killed_ns) / 1e9, 3),
                "publish_per_second": round(settings.count / elapsed_s([produced]), 1),
                "server_rss_before_mib": before_mib,
                "server_rss_after_mib": after_mib,
            },
        )
