"""How long a pipeline takes that has nothing to do, on a machine without Java: the start, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import tocsin
from tocsin.cli.bench.process import BenchFailed

SECONDS_MAX = 300.0
_WARM_UP = "import sys, tocsin.spark; sys.exit(not tocsin.spark.warm_up())"


def path_without_java(folder: Path) -> str:
    """A folder with all programs of this machine's PATH but Java's."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if not program.name.startswith("java") and not os.path.lexists(link):
                link.symlink_to(program.absolute())
    return str(folder.absolute())


def environment_without_java(folder: Path) -> dict[str, str]:
    foreign = ("JAVA", "SPARK", "PYSPARK")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "PATH": path_without_java(folder)}


def archive_seconds(url: str, folder: Path, rounds: int) -> float:
    """The median of `tocsin pipeline run archive` on an empty topic, from the command to its end, with warm caches."""
    topic = "bench.empty"
    with tocsin.connect(url) as connection:
        connection.create_destination(topic, "topic", retained=True)
    environment = environment_without_java(folder / "programs")
    _run([sys.executable, "-c", _WARM_UP], environment)
    took = []
    for number in range(rounds + 1):
        target = str(folder / f"archive-{number}")
        command = ["pipeline", "run", "archive", "--url", url, "--topics", topic, "--to", target]
        start = time.perf_counter()
        _run([sys.executable, "-m", "tocsin.cli.main", *command], environment)
        took.append(time.perf_counter() - start)
    return median(took[1:])


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode:
        raise BenchFailed(f"{' '.join(command[1:4])} ended with code {done.returncode}: {done.stderr[-1000:]}")
