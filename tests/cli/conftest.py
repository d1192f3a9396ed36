"""A real server for the commands to talk to, and names that no other test uses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.cli.shell import Shell
from tests.system.cluster_server import ClusterServer

from tocsin.cli.bench.server import OwnServer

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def shell(cluster: ClusterServer | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if cluster is not None:
        yield Shell(cluster.url)
        return
    server = OwnServer(tmp_path_factory.mktemp("server"))
    server.start()
    try:
        server.wait_until_listening()
        yield Shell(server.url)
    finally:
        server.stop()


@pytest.fixture
def queue() -> str:
    """A name that no other test uses."""
    return f"queue-{next(_NUMBERS)}"


@pytest.fixture
def topic() -> str:
    return f"topic:topic-{next(_NUMBERS)}"


@pytest.fixture
def body_file(tmp_path: Path) -> Path:
    path = tmp_path / "body"
    path.write_bytes(b"\x00\xffbytes\n")
    return path
