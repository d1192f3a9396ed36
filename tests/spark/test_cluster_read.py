"""The source against a cluster of processes: topics of several groups, and a primary that dies between two batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.tables import Stream, fill, fill_queue, numbers, source
from tests.system.clusters import ClusterProcesses

import tocsin

TOPICS = [f"prices.{number}" for number in range(6)]
"""Enough names for some to be in each of two groups."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path / "cluster", "--profile", "fast", settings="") as running:
        yield running
        running.check_logs()


@pytest.mark.timeout(300)
def test_a_cluster_is_read_like_a_server(spark: Any, cluster: ClusterProcesses, tmp_path: Path) -> None:
    url = cluster.url
    stream = Stream(spark, url, tmp_path, subscribePattern=r"prices\..*", startingOffsets="earliest", groupId="nightly")
    with tocsin.connect(url) as connection:
        for place, name in enumerate(TOPICS):
            fill(connection, name, 10, start=10 * place)
        fill_queue(connection, "jobs", 10)
        stream.run()
        assert numbers(source(spark.read, url, subscribePattern=r"prices\..*").load()) == list(range(60))
        assert numbers(source(spark.read, url, subscribe="jobs").load()) == list(range(10))
        cluster.command("kill", "mm-1a")
        for place, name in enumerate(TOPICS):
            fill(connection, name, 10, start=60 + 10 * place)
        stream.run()
        assert sorted(stream.numbers()) == list(range(120))
        holds = [connection.show_destination(f"topic:{name}")["holds"] for name in TOPICS]
        assert [[(hold["offset"], hold["lag"]) for hold in each] for each in holds] == [[(20, 0)]] * len(TOPICS)
        drain = Stream(spark, url, tmp_path / "drain", subscribe="queue:jobs")
        drain.run()
        assert drain.numbers() == list(range(10))
        assert connection.show_destination("queue:jobs")["messages"] == 0
