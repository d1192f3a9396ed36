"""Pipelines that users write: a Python file with a function `pipeline(spark, options)`.

The same file runs with spark-submit, when it ends with

    if __name__ == "__main__":
        tocsin.spark.submit(pipeline)

`options` is a dict of what stands on the command line: `--name value` and `--flag`. What the function returns is waited
for and shown: a streaming query or several, a frame, or nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.model.errors import ConfigError
from tocsin.spark.pipelines.definition import URL_DEFAULT, Progress, Report, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRIES = ("pipeline", "main")
MODULE_NAME = "tocsin_user_pipeline"
"""Not `__main__`, so that what the file does only there is left out. No module of that name stays, so Spark sends
the file's functions by value to the workers, who have no such file.
"""
ROWS_SHOWN = 20


def load_file(path: str | Path) -> dict[str, Any]:
    """Runs a file as `import` would, and returns its names."""
    import runpy

    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"There is no file {path}.")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        # Where its own imports are, as with `python FILE` and spark-submit.
        sys.path.insert(0, folder)
    try:
        return runpy.run_path(str(path), run_name=MODULE_NAME)
    except SyntaxError as error:
        raise ConfigError(f"{path}, line {error.lineno}: {error.msg}.") from error


def load_entry(path: str | Path) -> Callable[[SparkSession, dict[str, str]], Any]:
    names = load_file(path)
    for entry in ENTRIES:
        if callable(names.get(entry)):
            return names[entry]  # type: ignore[no-any-return]
    raise ConfigError(f"{path} has no function pipeline(spark, options).")


def load_function(name: str) -> Callable[..., Any]:
    """A function by module:function or file.py:function."""
    where, separator, function = name.rpartition(":")
    if not separator or not where or not function:
        raise ConfigError(f"{name!r} names no function; write module:function or file.py:function.")
    if where.endswith(".py"):
        found = load_file(where).get(function)
    else:
        try:
            found = getattr(import_module(where), function, None)
        except ImportError as error:
            raise ConfigError(f"The module {where!r} can't be imported: {error}.") from error
    if not callable(found):
        raise ConfigError(f"{where} has no function {function}.")
    return found  # type: ignore[no-any-return]


def read_options(words: Sequence[str]) -> dict[str, str]:
    """`--name value`, `--name=value`, and `--flag`, which is true."""
    options: dict[str, str] = {}
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        name, separator, value = word.partition("=")
        if not name.startswith("--") or len(name) < 3:
            raise ConfigError(f"{word!r} is no option; options of a pipeline are written --name value.")
        if not separator:
            value = waiting.pop(0) if waiting and not waiting[0].startswith("--") else "true"
        options[name.removeprefix("--")] = value
    return options


def submit(function: Callable[[SparkSession, dict[str, str]], Any]) -> None:
    """For the end of a file: runs its pipeline as spark-submit, or plain Python, has started it."""
    import json

    import tocsin.spark
    from tocsin.spark.pipelines.watching import Watcher

    options = default_options(sys.argv[1:])
    spark = tocsin.spark.session()
    try:
        report = finish(function(spark, options), Watcher())
    finally:
        spark.stop()
    sys.stdout.write(json.dumps(report.values, default=str) + "\n")


class FileOptions(dict[str, str]):
    """Options that the user has given; one that the pipeline wants and that is not there is named."""

    def __missing__(self, name: str) -> str:
        raise ConfigError(f"The pipeline needs the option --{name}.")


def default_options(words: Sequence[str]) -> FileOptions:
    """What stands on the command line, and the server's URL in any case."""
    return FileOptions({"url": os.environ.get("TOCSIN_URL", URL_DEFAULT), **read_options(words)})


def finish(result: Any, progress: Progress) -> Report:
    """Waits for what a pipeline has returned, and says what became of it."""
    from pyspark.sql import DataFrame

    if isinstance(result, Report):
        return result
    if isinstance(result, DataFrame):
        if result.isStreaming:
            raise ConfigError("The pipeline returned a streaming frame that nobody has started; end with .start().")
        found = result.limit(ROWS_SHOWN).collect()
        rows = [row.asDict(recursive=True) for row in found]
        return Report({"rows": rows}, [Table("", result.columns, [tuple(row) for row in found])])
    queries = result if isinstance(result, list | tuple) else [result]
    watched = [progress.watch(query) for query in queries if hasattr(query, "awaitTermination")]
    if watched:
        return Report(watched[0].values() if len(watched) == 1 else {"queries": [each.values() for each in watched]})
    return Report(result if isinstance(result, Mapping) else {})
