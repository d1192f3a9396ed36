"""What a published byte costs on the bus, with 1, 2, 3 and 4 members in the group.

Counted is the payload of every packet that any node sent to any address of the bus while the messages were published:
messages, orders, acknowledgements of members, what was sent again and what was fetched. Since a message crosses the
network once for all members, the ratio to the published bytes must hardly depend on their number.
"""

from __future__ import annotations

import time

from tocsin.cli.bench.cluster import TELLING_SECONDS, OwnCluster, own_cluster
from tocsin.cli.bench.crew import Crew
from tocsin.cli.bench.report import Result
from tocsin.cli.bench.settings import BATCH_DEFAULT, Mode, Settings
from tocsin.cli.bench.stage import elapsed_s

MEMBERS = (1, 2, 3, 4)
PAYLOAD = "payload_bytes_out"
DESTINATION = "queue:bench.replication"


def run(settings: Settings) -> Result:
    ratios: dict[int, float] = {}
    seconds = 0.0
    for members in MEMBERS:
        with own_cluster(1, members, str(settings.profile)) as cluster, Crew(cluster, settings.timeout_s) as crew:
            ratios[members], took_s = _measure(settings, cluster, crew)
            seconds += took_s
    return Result(
        settings=settings,
        seconds=seconds,
        messages_per_second=settings.count * len(MEMBERS) / seconds,
        more={
            "bytes_per_published_byte": {str(members): round(ratio, 4) for members, ratio in ratios.items()},
            "spread_percent": spread_percent(ratios),
        },
    )


def _measure(settings: Settings, cluster: OwnCluster, crew: Crew) -> tuple[float, float]:
    """Bytes on the bus per published byte, and seconds."""
    publisher = crew.start(
        "publisher",
        destination=DESTINATION,
        count=settings.count,
        size=settings.size,
        mode=Mode.MANY,
        batch=BATCH_DEFAULT,
    )
    crew.gather(publisher)
    time.sleep(TELLING_SECONDS)
    before = cluster.counted(PAYLOAD)
    (published,) = crew.step(publisher)
    # A member that lags fetches behind the last confirmation, and that counts, too.
    cluster.wait_until_well()
    time.sleep(TELLING_SECONDS)
    ratio = (cluster.counted(PAYLOAD) - before) / (settings.count * settings.size)
    return ratio, elapsed_s([published])


def spread_percent(ratios: dict[int, float]) -> float:
    """By how much the dearest exceeds the cheapest."""
    return round((max(ratios.values()) / min(ratios.values()) - 1) * 100, 2)
