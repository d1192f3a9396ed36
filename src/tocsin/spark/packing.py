"""Shipping to executors on which tocsin is not installed: a zip for --py-files, and the command line that uses it.

The zip holds the client and the data source, which need no more than the standard library, pyarrow and Spark's own
Python. Servers are not in it.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

from tocsin.model.errors import ConfigError

ZIP_NAME = "tocsin.zip"
PACKAGES = ("model", "wire", "client", "spark")
"""Parts of tocsin that are in the zip as a whole."""
MODULES = (
    "__init__.py",
    "aio.py",
    "errors.py",
    "types.py",
    "journal/__init__.py",
    "journal/record.py",
    "journal/segment.py",
    "journal/stream_entry.py",
    "journal/stream_view.py",
    "runtime/__init__.py",
    "runtime/local.py",
    "runtime/ownership.py",
    "runtime/ports.py",
    "runtime/spinning.py",
    "runtime/tls.py",
)
"""Single files that those parts need, or that their users import."""
DISCOVERED = "pyspark_tocsin"
"""The module by which Spark finds the format where it is installed."""
# Nothing in the zip depends on when it was made, so the same release makes the same bytes.
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def zip_package(folder: Path | str) -> Path:
    """Writes tocsin.zip into the folder, for `spark-submit --py-files`, and returns its path."""
    target = Path(folder) / ZIP_NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(_sources()):
            archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), content, zipfile.ZIP_DEFLATED)
    return target


def _sources() -> Iterator[tuple[str, bytes]]:
    """Names in the zip, with their text. The package itself may have been loaded from such a zip."""
    own = files("tocsin")
    for name in MODULES:
        yield f"tocsin/{name}", own.joinpath(*name.split("/")).read_bytes()
    for name in PACKAGES:
        yield from _source_files(own / name, f"tocsin/{name}")
    yield from _source_files(files(DISCOVERED), DISCOVERED)


def _source_files(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        inside = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _source_files(entry, inside)
        elif entry.name.endswith((".py", ".java")):
            yield inside, entry.read_bytes()


def show_package(environment: dict[str, str]) -> None:
    """Lets the driver's own Python workers find this package when it was shipped by --py-files.

    Spark tells them where shipped files are, but the one that plans a streaming query is told a place where they
    are not. Executors get the same variable; what it names may be missing there, which does no harm.
    """
    package = Path(str(files("tocsin"))).parent
    if package.is_file():
        known = environment.get("PYTHONPATH", "").split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (*known, str(package))))


def spark_home() -> Path:
    """Where the pyspark package keeps Spark's programs."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ConfigError("Spark is not installed: pip install 'tocsin[spark]' brings it.")
    return Path(found.origin).parent


def submit_command(
    script: Path | str,
    arguments: Sequence[str] = (),
    *,
    master: str,
    py_files: Sequence[Path | str] = (),
    archives: Sequence[str] = (),
    driver_python: str | None = None,
    executor_python: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> list[str]:
    """`spark-submit` of the installed pyspark for a script, in the order in which people write it.

    `archives` are packed environments such as "environment.tar.gz#environment"; the executors' Python is then
    "./environment/bin/python". Without a word about it executors take the `python3` of their own PATH.
    """
    settings = dict(conf or {})
    if driver_python is not None:
        settings.setdefault("spark.pyspark.driver.python", driver_python)
    if executor_python is not None:
        settings.setdefault("spark.pyspark.python", executor_python)
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", master]
    if py_files:
        command += ["--py-files", ",".join(map(str, py_files))]
    if archives:
        command += ["--archives", ",".join(archives)]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, str(script), *arguments]
