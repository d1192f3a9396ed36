"""The driver of an archive is killed with SIGKILL at each step of a commit; the next run makes it whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.tables import fill, numbers

import tocsin
from tocsin.spark.pipelines import archive
from tocsin.spark.pipelines.archive import ArchiveOptions
from tocsin.spark.pipelines.verify import VerifyOptions, verify
from tocsin.spark.pipelines.watching import QUIET

SCRIPT = """
import os, signal, sys
import tocsin.spark
from tocsin.spark.pipelines import archive
from tocsin.spark.pipelines.archive_folder import LocalFolder
from tocsin.spark.pipelines.watching import QUIET

url, folder, step = sys.argv[1:]
calls = {"create_once": 0, "move": 0}

def die_at(name, wanted, before):
    real = getattr(LocalFolder, name)
    def counted(self, *given):
        calls[name] += 1
        if before and calls[name] == wanted:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(self, *given)
        if not before and calls[name] == wanted:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(LocalFolder, name, counted)

name, wanted, when = step.split()
die_at(name, int(wanted), when == "before")
spark = tocsin.spark.session("local[2]", quick=True, warm=False)
options = archive.ArchiveOptions(url=url, to=folder, topics=("prices",), max_rows=20)
archive.run(spark, options, QUIET)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "step",
    [
        pytest.param("create_once 2 before", marks=pytest.mark.long),
        "create_once 2 after",
        pytest.param("move 3 after", marks=pytest.mark.long),
    ],
)
def test_a_driver_that_is_killed_leaves_nothing_doubled_and_nothing_lost(
    spark: SparkSession, server: tocsin.Server, connection: tocsin.Connection, tmp_path: Path, step: str
) -> None:
    fill(connection, "prices", 70)
    lake = tmp_path / "lake"
    said = tmp_path / "said"
    # Not a pipe: the driver's Java outlives it by some seconds, and would keep us waiting for its end.
    with said.open("wb") as output:
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT, server.url, str(lake), step],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=output,
            stderr=output,
            timeout=200,
            check=False,
        )
    assert ended.returncode == -signal.SIGKILL, said.read_text()[-2000:]
    seen = numbers(spark.read.parquet(str(lake)))
    assert seen == list(range(len(seen))) and 20 <= len(seen) < 70, "plain readers see whole files alone"
    options = ArchiveOptions(url=server.url, to=str(lake), topics=("prices",), max_rows=20, grace=0.0)
    archive.run(spark, options, QUIET)
    assert numbers(spark.read.parquet(str(lake))) == list(range(70))
    verdict = verify(spark, VerifyOptions(url=server.url, topic="prices", archive=str(lake), complete=True))
    assert verdict.equal, verdict.sentence()
    assert not list((lake / "_staging").rglob("*.parquet")), "what the dead run left is gone"
