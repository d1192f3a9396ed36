"""Full load for a long time without any fault: no group may change its epoch, no member may leave the in-sync set."""

from __future__ import annotations

import time

from tocsin.cli.bench.cluster import TELLING_SECONDS, own_cluster
from tocsin.cli.bench.crew import Crew
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.report import Result, rounded
from tocsin.cli.bench.settings import Settings
from tocsin.cli.bench.shape import LOCAL
from tocsin.cli.bench.stage import CpuMeter, elapsed_s, per_100k

DESTINATION = "queue:bench.steady"
PERMITS = "queue:bench.steady.permits"


def run(settings: Settings) -> Result:
    shape = settings.cluster or LOCAL
    with (
        own_cluster(shape.client_managers, shape.members, str(settings.profile)) as cluster,
        Crew(cluster, settings.seconds + settings.timeout_s) as crew,
    ):
        parameters = {"destination": DESTINATION, "permits": PERMITS, "size": settings.size}
        receiver = crew.start("unceasing receiver", **parameters)
        sender = crew.start("unceasing sender", **parameters)
        crew.gather(receiver, sender)
        before = cluster.leading_report()
        meter = CpuMeter(cluster)
        crew.go(receiver, sender)
        crew.watch(settings.seconds)
        crew.go(sender)
        sent, received = crew.gather(sender, receiver)
        cpu_s = meter.spent_s()
        time.sleep(TELLING_SECONDS)
        after = cluster.leading_report()
        peak_mib = cluster.peak_mib()
    if received["taken"] != sent["sent"]:
        raise BenchFailed(f"{received['taken']:,} of {sent['sent']:,} messages came.")
    seconds = elapsed_s([received], start=[sent])
    return Result(
        settings=settings,
        seconds=seconds,
        messages_per_second=sent["sent"] / seconds,
        server_cpu_s_per_100k=per_100k(cpu_s, max(1, sent["sent"])),
        server_rss_mib=rounded(peak_mib, 1),
        more={
            "profile": str(settings.profile),
            "epoch_before": before.epoch,
            "epoch_after": after.epoch,
            "changes_of_epoch": after.epoch - before.epoch,
            "changes_of_configuration": after.version - before.version,
        },
    )
