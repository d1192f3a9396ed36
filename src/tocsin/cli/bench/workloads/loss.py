"""From producer to consumer over a bus that loses datagrams, against the same without loss.

Everything must arrive, and no member may leave the in-sync set meanwhile.
"""

from __future__ import annotations

import time
from dataclasses import replace

from tocsin.cli.bench.cluster import TELLING_SECONDS, own_cluster
from tocsin.cli.bench.crew import Crew
from tocsin.cli.bench.report import Result
from tocsin.cli.bench.settings import BATCH_DEFAULT, Mode, Settings
from tocsin.cli.bench.shape import LOCAL
from tocsin.cli.bench.stage import elapsed_s

DESTINATION = "queue:bench.loss"


def run(settings: Settings) -> Result:
    without_s, _, _ = _measure(replace(settings, loss=0))
    with_s, changes, sent_again = _measure(settings)
    return Result(
        settings=settings,
        seconds=with_s,
        messages_per_second=settings.count / with_s,
        more={
            "loss_percent": settings.loss,
            "messages_per_second_without_loss": round(settings.count / without_s, 1),
            "share_of_loss_free_percent": round(100 * without_s / with_s, 2),
            "changes_of_configuration": changes,
            "packets_sent_again": sent_again,
        },
    )


def _measure(settings: Settings) -> tuple[float, int, int]:
    """Seconds, how often the group's configuration has changed meanwhile, and how many packets went out again."""
    shape = settings.cluster or LOCAL
    more = {"drop_percent": settings.loss} if settings.loss else {}
    parameters = {
        "destination": DESTINATION,
        "count": settings.count,
        "size": settings.size,
        "mode": Mode.MANY,
        "batch": BATCH_DEFAULT,
    }
    with (
        own_cluster(shape.client_managers, shape.members, str(settings.profile), more) as cluster,
        Crew(cluster, settings.timeout_s) as crew,
    ):
        consumer = crew.start("consumer", **parameters)
        producer = crew.start("publisher", **parameters)
        crew.gather(consumer, producer)
        before = cluster.leading_report()
        consumed, produced = crew.step(consumer, producer)
        time.sleep(TELLING_SECONDS)
        changes = cluster.leading_report().version - before.version
        return elapsed_s([produced, consumed], start=[produced]), changes, cluster.counted("resent")
