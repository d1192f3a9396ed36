"""Past one machine: a Spark cluster of processes on which tocsin is not installed, and nodes that die under it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.copying import Copy, expected, feeding, read_topic
from tests.spark.environments import bare_environment, packed_environment
from tests.spark.jobs import copy_topic
from tests.spark.standalone import SMALL, SparkProcess, StandaloneCluster, kill
from tests.system.cluster_load import running_cluster
from tests.system.processes import ServerProcess, until

import tocsin
from tocsin.cli.bench.cluster import OwnCluster, shaped
from tocsin.spark import close_connections
from tocsin.spark.packing import zip_package
from tocsin.spark.pipelines.verify import VerifyOptions, verify

JOBS = Path(__file__).parent / "jobs"
JOB_SECONDS = 150.0
ROWS_PER_EPOCH = 2_000
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


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_packed_environment_is_shipped(
    spark_cluster: StandaloneCluster, server: ServerProcess, tmp_path: Path
) -> None:
    fill(server.url, 1_000)
    job = (JOBS / "copy_topic.py", server.url, SOURCE, TARGET, str(tmp_path / "checkpoint"), "400", "once")
    # Planning happens beside the driver, by the same Python: there it is the folder that was packed.
    archive = f"{packed_environment(tmp_path)}#environment"
    driver = spark_cluster.submit(*job, archives=[archive], python="./environment/bin/python", folder=tmp_path)
    assert driver.wait(JOB_SECONDS) == 0, driver.said()
    # One that a busy machine has kept from answering is replaced.
    assert spark_cluster.executors_started() >= 2
    with tocsin.connect(server.url) as connection:
        assert Copy(connection, TARGET, tmp_path / "checkpoint").content() == expected(1_000)


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_ready_pipeline_runs_on_executors_without_tocsin(
    spark_cluster: StandaloneCluster, server: ServerProcess, tmp_path: Path
) -> None:
    fill(server.url, 1_000)
    where = ("--master", spark_cluster.url, "--url", server.url, "--checkpoint", str(tmp_path / "checkpoint"))
    what = ("--source", SOURCE, "--target", TARGET, "--sql", "SELECT key, value FROM input")
    settings = [word for name, value in SMALL.items() for word in ("--conf", f"{name}={value}")]
    command = [sys.executable, "-m", "tocsin.cli.main", "pipeline", "run", "transform", *where, *what, *settings]
    # Only what runs beside the driver finds the sources; executors are started by the workers.
    sources = str(Path(tocsin.__file__).parent.parent)
    python = {"PYTHONPATH": sources, "PYSPARK_PYTHON": str(bare_environment(tmp_path / "bare"))}
    done = subprocess.run(command, env={**os.environ, **python}, capture_output=True, text=True, timeout=JOB_SECONDS)
    assert done.returncode == 0, done.stderr
    # One that a busy machine has kept from answering is replaced.
    assert spark_cluster.executors_started() >= 2
    with tocsin.connect(server.url) as connection:
        assert Copy(connection, TARGET, tmp_path / "checkpoint").content() == expected(1_000)


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_file_of_ones_own_is_submitted(
    spark_cluster: StandaloneCluster, server: ServerProcess, tmp_path: Path
) -> None:
    fill(server.url, 1_000)
    words = ("--from", SOURCE, "--to", TARGET, "--checkpoint", str(tmp_path / "checkpoint"), "--url", server.url)
    package, python = zip_package(tmp_path), bare_environment(tmp_path / "bare")
    driver = spark_cluster.submit(JOBS / "own_pipeline.py", *words, py_files=[package], python=python)
    assert driver.wait(JOB_SECONDS) == 0, driver.said()
    assert '"rows": 1000' in driver.said()
    with tocsin.connect(server.url) as connection:
        assert Copy(connection, TARGET, tmp_path / "checkpoint").content() == expected(1_000)


class Strikes:
    """Who is killed while the copy goes on; each time it has to move on before the next."""

    def __init__(self, spark: StandaloneCluster, nodes: OwnCluster, copy: Copy, chance: random.Random) -> None:
        self.spark, self.nodes, self.copy, self.chance = spark, nodes, copy, chance

    def moves_on(self, driver: SparkProcess) -> None:
        """Two epochs more: at least one of them began after what happened before."""

        wanted = self.copy.epochs + 2

        def check() -> None:
            assert driver.is_running, f"The driver ended: {driver.said()}"

        self.copy.wait_for(lambda: self.copy.epochs >= wanted, f"epoch {wanted} is done", check)
        # Anywhere in an epoch: while it is planned, read, staged or committed.
        time.sleep(self.chance.uniform(0.0, 1.0))

    def executor(self) -> None:
        victim = self.chance.choice(self.spark.executors())
        kill(victim)
        until(lambda: victim not in self.spark.executors(), "the executor is gone")

    def client_manager(self) -> str:
        name = self.chance.choice(self.nodes.config.client_managers).name
        self.nodes.kill(name)
        return name

    def primary(self) -> str:
        name = self.nodes.primary()
        assert name is not None
        self.nodes.kill(name)
        return name


@pytest.mark.timeout(600)
def test_topic_to_topic_exactly_once_whoever_is_killed(
    spark_cluster: StandaloneCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    job = ("copy_topic.py", SOURCE, TARGET, str(tmp_path / "checkpoint"), str(ROWS_PER_EPOCH))
    package, python = zip_package(tmp_path), bare_environment(tmp_path / "bare")

    def start(url: str) -> SparkProcess:
        name, *arguments = job
        return spark_cluster.submit(JOBS / name, url, *arguments, py_files=[package], python=python)

    with running_cluster(tmp_path / "nodes", shaped(2, 2, "fast")) as nodes, tocsin.connect(nodes.url) as connection:
        make_topics(nodes.url)
        copy = Copy(connection, TARGET, tmp_path / "checkpoint")
        strikes = Strikes(spark_cluster, nodes, copy, random.Random(4))
        with feeding(nodes.url, SOURCE) as feed:
            driver = start(nodes.url)
            strikes.moves_on(driver)
            strikes.executor()
            strikes.moves_on(driver)
            manager = strikes.client_manager()
            strikes.moves_on(driver)
            nodes.start(manager)
            primary = strikes.primary()
            strikes.moves_on(driver)
            nodes.start(primary)
            driver.kill()
            driver = start(nodes.url)
            strikes.moves_on(driver)
            count = feed.stop()
        copy.wait_for(lambda: copy.length >= count, f"the copy has {count} messages", lambda: None)
        driver.stop()
        assert f"{copy_topic.SHIPPED_AS}{package}" in driver.said()
        nodes.wait_until_well()
        assert read_topic(connection, SOURCE, count) == expected(count)
        assert copy.content() == expected(count)
        # Asked for now: until here one more Java would only have been in the way.
        spark = request.getfixturevalue("spark")
        verdict = verify(spark, VerifyOptions(url=nodes.url, topic=SOURCE, target=TARGET))
        assert verdict.equal, verdict.sentence()
        assert verdict.comparison.first.rows == verdict.comparison.second.rows == count
        close_connections()
