"""Commands of pipelines are made when they are used, and cost nothing before."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
from tocsin.cli import main
main.run({words!r})
print([name for name in {names!r} if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--version"], ["pyspark", "pyarrow", "tocsin.spark"]),
        (["pipeline", "list"], ["pyspark", "pyarrow"]),
        (["pipeline", "run", "transform", "--help"], ["pyspark", "pyarrow"]),
    ],
)
def test_nothing_is_loaded_before_its_time(words: list[str], names: list[str]) -> None:
    script = LOADED.format(words=words, names=names)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
