"""One Spark session for all tests of a process, and a server for each test."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tocsin

HERE = Path(__file__).parent
# Programs that tests start leave no process behind that works on for a minute.
os.environ.setdefault("TOCSIN_SPARK_WARM", "no")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's session outlives the test that happens to be its first, and opens connections to its Java when it likes,
    also during a test that does not use it.
    """
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.keeps_resources("Spark's session serves all tests"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with warnings.catch_warnings():
        # Spark's own, such as of modules that it could do without.
        warnings.simplefilter("ignore")
        import tocsin.spark

        # Compiling a query costs more than its few rows ever bring in.
        interpreted = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
        session = tocsin.spark.session("local[2]", quick=True, warm=False, **interpreted)
    yield session
    session.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tocsin.Server]:
    with tocsin.Server(tmp_path / "server") as running:
        yield running


@pytest.fixture
def connection(server: tocsin.Server) -> Iterator[tocsin.Connection]:
    with tocsin.connect(server.url) as opened:
        yield opened
