"""A server for a whole module, and a check that it never stumbled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.system.processes import ServerProcess


@pytest.fixture(scope="module")
def server_settings() -> dict[str, object]:
    """What a module wants its server to be; modules override it."""
    return {}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, server_settings: dict[str, object]) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), **server_settings) as running:
        yield running
        assert running.is_running, running.log()
        assert running.stop() == 0
        running.check_log()
