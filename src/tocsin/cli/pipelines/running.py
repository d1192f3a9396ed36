"""A Spark session around a run. A signal stops a query cleanly; what fails is said in a sentence."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from tocsin.cli import exits
from tocsin.model.errors import ConfigError, PipelineFailed, TocsinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tocsin.spark.pipelines.definition import Progress, Report
    from tocsin.spark.pipelines.watching import Watcher


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What every run takes."""

    master: str
    conf: list[str] | None
    py_files: list[str] | None
    json: bool

    @property
    def is_local(self) -> bool:
        return self.master == "local" or self.master.startswith("local[")

    def spark_conf(self) -> dict[str, str]:
        settings = {}
        for each in self.conf or ():
            name, separator, value = each.partition("=")
            if not separator or not name.strip():
                raise ConfigError(f"--conf {each!r} is not NAME=VALUE, as in spark.sql.shuffle.partitions=4.")
            settings[name.strip()] = value.strip()
        return settings


Run = Callable[["SparkSession", Any, "Progress"], "Report"]


def run_pipeline(
    settings: RunSettings, name: str, load: Callable[[], Run], options: Any, reads: Sequence[str] = ()
) -> None:
    """Runs one pipeline from its options to its report. `load` is called before Spark starts, which takes seconds."""
    from tocsin.cli.pipelines.showing import ProgressLine, show_report

    _check_installed()
    run = load()
    conf = settings.spark_conf()
    stop = threading.Event()
    with ProgressLine() as line:
        from tocsin.spark.pipelines.sizing import is_short
        from tocsin.spark.pipelines.watching import Watcher

        watcher = Watcher(line.show, line.note, stop)
        with _signals(stop, watcher) as claim:
            line.wait("starting Spark")
            with _session(settings, name, conf, is_short(options, reads)) as spark:
                claim()
                line.wait("running")
                report = _guarded(run, spark, options, watcher)
    show_report(report, settings.json)
    if report.failed is not None:
        raise PipelineFailed(report.failed)
    if stop.is_set() and not getattr(options, "follow", True):
        raise typer.Exit(exits.INTERRUPTED)


def run_file(settings: RunSettings, path: str, words: list[str]) -> None:
    from tocsin.spark.pipelines.user_file import default_options, finish, load_entry

    options = default_options(words)

    def load() -> Run:
        entry = load_entry(path)
        return lambda spark, given, progress: finish(entry(spark, given), progress)

    run_pipeline(settings, path, load, options)


def _check_installed() -> None:
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"Pipelines need {' and '.join(missing)}: pip install 'tocsin[spark]'.")


def _guarded(run: Run, spark: SparkSession, options: Any, watcher: Watcher) -> Report:
    from tocsin.spark.pipelines.causes import cause_of

    try:
        return run(spark, options, watcher)
    except TocsinError:
        raise
    except Exception as error:
        if os.environ.get("TOCSIN_TRACEBACK"):
            raise
        raise PipelineFailed(cause_of(error)) from error


@contextmanager
def _session(settings: RunSettings, name: str, conf: dict[str, str], quick: bool) -> Iterator[SparkSession]:
    """A session that is there already is used and left as it is. Workers elsewhere get this package as a zip."""
    from pyspark.sql import SparkSession

    from tocsin.spark import register
    from tocsin.spark.packing import zip_package

    found = SparkSession.getActiveSession()
    spark = found or _start(settings.master, {"spark.app.name": f"tocsin {name}", **conf}, quick)
    try:
        with TemporaryDirectory(prefix="tocsin-") as folder:
            own = [] if settings.is_local else [str(zip_package(folder))]
            for each in (*own, *(settings.py_files or ())):
                spark.sparkContext.addPyFile(each)
            if own:
                # Once more: the format goes to the workers with the files that were known when it was registered.
                register(spark)
            yield spark
    finally:
        if found is None:
            spark.stop()


def _start(master: str, conf: dict[str, Any], quick: bool) -> SparkSession:
    import tocsin.spark
    from tocsin.cli.pipelines.quiet import children_kept_quiet

    if os.environ.get("TOCSIN_TRACEBACK"):
        return tocsin.spark.session(master, quick=quick, **conf)
    with children_kept_quiet() as kept:
        try:
            spark = tocsin.spark.session(master, quick=quick, **conf)
        except TocsinError:
            raise
        except Exception as error:
            said = f" Java said: {kept.text}" if kept.text else ""
            raise PipelineFailed(f"Spark did not start: {error}.{said}") from error
    # What goes wrong is said once, at the end, and not as the stack traces of the log.
    spark.sparkContext.setLogLevel("OFF")
    return spark


@contextmanager
def _signals(stop: threading.Event, watcher: Watcher) -> Iterator[Callable[[], None]]:
    """The first Ctrl-C or SIGTERM asks the run to stop, if it listens; a second one, or a deaf run, is interrupted.

    Yields what takes the signals back from Spark, which takes Ctrl-C for itself when it starts.
    """

    def ask(_number: int, _frame: object) -> None:
        if stop.is_set() or not watcher.listening:
            raise KeyboardInterrupt
        stop.set()

    def claim() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, ask)

    if threading.current_thread() is not threading.main_thread():
        # Signals never come here.
        yield lambda: None
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    claim()
    try:
        yield claim
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
