"""A Spark session with settings that suit this source, and with a Java wherever there is one."""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from tocsin.model.errors import ConfigError
from tocsin.spark.class_cache import java_options, warm_in_background
from tocsin.spark.cores import CORES, cores_of
from tocsin.spark.java import Java, cache_directory, find_java, write_once
from tocsin.spark.packing import show_package

MIB = 1024 * 1024
_OPTIONS = "spark.driver.extraJavaOptions"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set when spark-submit has started Java already: master and options are its affair then."""

# Settings that are good anywhere.
ANYWHERE = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.pollingDelay": "25ms",
}
# And on one machine only: nobody looks at the user interface, and checkpoints are files of a local disk. Spark's own
# way to write those starts two programs for each.
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
# What goes wrong, and nothing else: Spark's default greets, warns and counts. The gateway is named, because Spark takes
# its level for all others when it is another one.
_LOGGING = """appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{3}
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
# Record batches are checked where they are made; Java need not check each value again.
_ARROW_OPTIONS = ("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false")
# The collector that takes the least from the work itself, unless the user names one: two would not start.
_COLLECTOR = "-XX:+UseParallelGC"
# The program that finds out how to start Java is a Java itself, and ends at once.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(master: str | None = None, *, quick: bool = False, warm: bool = True, **conf: Any) -> SparkSession:
    """The Spark session of this process, started if need be.

    `master` is local[N], local[*] (the default) or a cluster's spark://host:port. `conf` are Spark's own settings, as
    in session("local[2]", **{"spark.sql.shuffle.partitions": 8}); they win over ours. `quick` is for runs of seconds:
    Java compiles less. With `warm`, the first session of a machine leaves a cache of Spark's classes for the next ones,
    made in the background after it has ended. Under spark-submit, master and Java are what was submitted.
    """
    for name in conf:
        if not name.startswith("spark."):
            raise ConfigError(f"session() knows no {name!r}; Spark's settings begin with spark., as in {_OPTIONS}.")
    texts = {name: _text(value) for name, value in conf.items()}
    active = SparkSession.getActiveSession()
    if active is not None or _SUBMITTED in os.environ:
        return register(_builder(master if active is None else None, {**ANYWHERE, **texts}).getOrCreate())
    java = find_java()
    started = start_session(master or "local[*]", texts, java, java_options(java, quick=quick))
    if warm:
        atexit.register(warm_in_background, java)
    return register(started)


def start_session(master: str, conf: Mapping[str, str], java: Java, options: list[str]) -> SparkSession:
    cores = cores_of(master)
    settings = dict(ANYWHERE)
    if cores is not None:
        settings |= LOCAL
        settings["spark.sql.shuffle.partitions"] = str(cores)
        settings["spark.driver.memory"] = f"{_heap_mib()}m"
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ[CORES] = str(cores)
        options = [*options, *_ARROW_OPTIONS, f"-Dlog4j2.configurationFile={_logging_file()}"]
        if not any("GC" in option for option in (*options, conf.get(_OPTIONS, ""))):
            options.append(_COLLECTOR)
    settings |= conf
    settings[_OPTIONS] = " ".join([*options, conf.get(_OPTIONS, "")]).strip()
    # Workers would otherwise run whatever python3 is first on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Told where Spark is, its scripts need not start a Python to find out.
    spark_home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    with _environment(JAVA_HOME=str(java.home), SPARK_HOME=spark_home, SPARK_LAUNCHER_OPTS=_LAUNCHER_OPTIONS):
        return _builder(master, {name: value for name, value in settings.items() if value}).getOrCreate()


def register(spark: SparkSession) -> SparkSession:
    """Makes the format known where Spark does not find it by itself, such as with --py-files, and its reads cheaper."""
    from tocsin.spark.data_source import TocsinDataSource
    from tocsin.spark.direct_plans import plan_directly

    show_package(spark.sparkContext.environment)
    spark.dataSource.register(TocsinDataSource)
    plan_directly(spark)
    return spark


def _builder(master: str | None, conf: Mapping[str, str]) -> Any:
    builder = SparkSession.builder.appName("tocsin")
    if master is not None:
        builder = builder.master(master)
    return builder.config(map=dict(conf))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _heap_mib() -> int:
    """A quarter of the machine's memory, within bounds; Spark's own 1 GiB is little for millions of rows."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    return max(1024, min(4096, memory // 4))


def _logging_file() -> Path:
    digest = hashlib.sha256(_LOGGING.encode()).hexdigest()[:16]
    file = cache_directory() / f"log4j2-{digest}.properties"
    write_once(file, _LOGGING, 0o644)
    return file


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Only what starts Java needs to know; programs of the user's own may want something else."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
