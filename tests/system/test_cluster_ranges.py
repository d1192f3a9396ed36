"""A range is read to its end, each message once, while the primary and a client manager are killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.system.cluster_load import running_cluster

import tocsin
from tocsin.cli.bench.cluster import OwnCluster, shaped
from tocsin.model.batch import Column
from tocsin.model.columns import column_values

MESSAGES = 20_000
PREFETCH = 256 * 1024


def fill(connection: tocsin.Connection, topic: tocsin.Destination) -> None:
    connection.create_destination(topic.name, "topic", retained=True)
    with connection.session() as session:
        session.producer(topic).send_many(f"{number:0100}" for number in range(MESSAGES))


def numbers(found: tocsin.RangeBlock) -> list[int]:
    bodies = column_values(found.block, Column.BODY) or []
    return [int(bodies[index]) for start, end in found.ranges for index in range(start, end)]


def kill_primary(cluster: OwnCluster) -> None:
    primary = cluster.primary()
    assert primary is not None
    cluster.kill(primary)
    cluster.wait_until(lambda: cluster.primary() not in (None, primary), "another member leads")
    cluster.start(primary)


@pytest.mark.timeout(120)
def test_a_range_is_read_once_and_whole_while_nodes_die(tmp_path: Path) -> None:
    with running_cluster(tmp_path, shaped(2, 2, "fast")) as cluster, tocsin.connect(cluster.url) as connection:
        with connection.session() as session:
            topic = session.topic("readings")
            fill(connection, topic)
            before = connection.offsets(topic)
            found: list[int] = []
            for turn, block in enumerate(session.read_range(topic, 0, MESSAGES, prefetch_bytes=PREFETCH, local=False)):
                found += numbers(block)
                if turn == 2:
                    kill_primary(cluster)
                elif turn == 6:
                    cluster.kill("cm-1")
                    cluster.start("cm-1")
            assert found == list(range(MESSAGES))
            assert connection.offsets(topic) == before
        cluster.wait_until_well()
