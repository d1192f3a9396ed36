"""The session: settings, Java, and a first example on a machine without Java."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark.tables import fill, source

import tocsin
from tocsin.model.errors import ConfigError
from tocsin.spark import spark_session
from tocsin.spark.java import Java
from tocsin.spark.spark_session import session, start_session

FIRST_EXAMPLE = """
import sys
import tocsin.spark

spark = tocsin.spark.session("local[2]", quick=True, warm=False)
table = spark.read.format("tocsin").option("url", sys.argv[1]).option("subscribe", "prices").load()
print([row.text for row in table.selectExpr("cast(value as string) as text").collect()])
print(spark.sparkContext._jvm.java.lang.System.getProperty("java.version"))
spark.stop()
"""


def test_settings_that_suit_the_source(spark: Any) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert conf.get("spark.sql.shuffle.partitions") == "2"
    assert "FileSystemBased" in conf.get("spark.sql.streaming.checkpointFileManagerClass")


def test_there_is_one_garbage_collector_whoever_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Builder:
        def getOrCreate(self) -> None:
            """What would start Java."""

    def build(master: str | None, conf: Any) -> Builder:
        made.append(conf["spark.driver.extraJavaOptions"])
        return Builder()

    monkeypatch.setattr(spark_session, "_builder", build)
    java = Java(Path("somewhere"), "25")
    start_session("local[2]", {}, java, [])
    start_session("local[2]", {}, java, ["-XX:+UseSerialGC"])
    start_session("local[2]", {"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}, java, [])
    start_session("spark://host:7077", {}, java, ["-Da=b"])
    assert [re.findall(r"Use\w+GC", options) for options in made] == [
        ["UseParallelGC"], ["UseSerialGC"], ["UseG1GC"], [],
    ]  # fmt: skip


def test_a_session_that_is_there_is_used(spark: Any) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    settings: dict[str, Any] = {"spark.sql.shuffle.partitions": 7}
    again = session(**settings)
    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.shuffle.partitions") == "7"
    spark.conf.set("spark.sql.shuffle.partitions", before)


def test_a_setting_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="session\\(\\) knows no 'shuffle'"):
        session("local[2]", shuffle=3)


def test_spark_finds_the_format_by_itself(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    """A session of somebody else's: nothing is registered there, and the module pyspark_tocsin is found."""
    fill(connection, "prices", 2)
    other = spark.newSession()
    assert source(other.read, server.url, subscribe="prices").load().count() == 2


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_first_example_runs_where_no_java_is_installed(
    server: tocsin.Server, connection: tocsin.Connection, tmp_path: Path
) -> None:
    fill(connection, "prices", 2)
    hidden = ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PATH"] = str(_path_without_java(tmp_path))
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    ended = subprocess.run(
        [sys.executable, "-c", FIRST_EXAMPLE, server.url],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    printed = ended.stdout.splitlines()
    assert printed[0] == "['0', '1']"
    assert int(printed[1].split(".")[0]) >= 25


def _path_without_java(folder: Path) -> Path:
    """A directory with links to every program of the path but Java's."""
    programs = folder / "programs"
    programs.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        if not os.path.isdir(place):
            continue
        for name in os.listdir(place):
            if not name.startswith(("java", "jre")) and not (programs / name).is_symlink():
                (programs / name).symlink_to(os.path.join(place, name))
    return programs
