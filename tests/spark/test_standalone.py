"""Past one machine: a Spark cluster of processes on which tocsin is not installed, and nodes that die under it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.copying import Copy, expected
from tests.spark.environments import bare_environment, packed_environment
from tests.spark.jobs import copy_topic
from tests.spark.standalone import StandaloneCluster
from tests.system.processes import ServerProcess

import tocsin
from tocsin.spark.packing import zip_package

JOBS = Path(__file__).parent / "jobs"
JOB_SECONDS = 150.0
SOURCE, TARGET = "prices", "prices.copy"


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server") as running:
        make_topics(running.url)
        yield running


def make_topics(url: str) -> None:
    with tocsin.connect(url) as connection:
        for topic in (SOURCE, TARGET):
            connection.create_destination(topic, "topic", retained=True)


def fill(url: str, count: int) -> None:
    with tocsin.connect(url) as connection, connection.session() as session:
        messages = (session.message(body, key=key) for key, body in sorted(expected(count)))
        session.producer(session.topic(SOURCE)).send_many(messages)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("way", ["py-files", "archives"])
def test_a_pipeline_is_shipped_to_executors_without_tocsin(
    spark_cluster: StandaloneCluster, server: ServerProcess, tmp_path: Path, way: str
) -> None:
    fill(server.url, 1_000)
    job = (JOBS / "copy_topic.py", server.url, SOURCE, TARGET, str(tmp_path / "checkpoint"), "400", "once")
    package = zip_package(tmp_path)
    if way == "py-files":
        driver = spark_cluster.submit(*job, py_files=[package], python=bare_environment(tmp_path / "bare"))
    else:
        # Planning happens beside the driver, by the same Python: there it is the folder that was packed.
        archive = f"{packed_environment(tmp_path)}#environment"
        driver = spark_cluster.submit(*job, archives=[archive], python="./environment/bin/python", folder=tmp_path)
    assert driver.wait(JOB_SECONDS) == 0, driver.said()
    assert spark_cluster.executors_started() == 2
    if way == "py-files":
        assert f"{copy_topic.SHIPPED_AS}{package}" in driver.said()
    with tocsin.connect(server.url) as connection:
        assert Copy(connection, TARGET).content() == expected(1_000)
