"""What all tests share: repeatable generated cases, and no thread or open file left behind."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.simulation import seed_summary
from tests.system import campaign_summary

from tocsin.model.errors import InternalError
from tocsin.model.faults import Faults

if TYPE_CHECKING:
    from tests.system.cluster_server import ClusterServer

# The same cases on every machine and every run; a shared machine is no reason to fail.
settings.register_profile(
    "repeatable",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("repeatable")

# What was told to stop gets this long to be gone, such as a thread that is past its last job. On a busy machine the
# thread of a server needs a few turns to notice that its client has gone, and gets none while garbage is collected.
GRACE_SECONDS = 10.0
COLLECT_SECONDS = 0.5
OPEN_FILES = Path("/proc/self/fd")


# Under `nohup make test &` a shell has SIGINT ignored, and every program that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # Here, because with several processes nobody but them looks into the folders.
    seed_summary.pytest_terminal_summary(terminalreporter)
    campaign_summary.pytest_terminal_summary(terminalreporter)


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "run the tests of JMS and of the commands against a cluster of real processes instead of a server"
    parser.addoption("--cluster", action="store_true", help=about)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--cluster"):
        for item in items:
            if mark := item.get_closest_marker("own_server"):
                item.add_marker(pytest.mark.skip(reason=f"not in a cluster: {mark.args[0]}"))


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterServer | None]:
    """One for all tests; None unless there is to be one."""
    if not request.config.getoption("--cluster"):
        yield None
        return
    from tests.system.cluster_server import ClusterServer

    with ClusterServer(request.getfixturevalue("tmp_path_factory").mktemp("cluster") / "cluster") as running:
        yield running


@pytest.fixture(autouse=True)
def no_mistake_is_hidden(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in whose course the server met an error that should not happen: it is contained, not forgiven."""
    noted: list[str] = []
    plain = Faults.note

    def note(self: Faults, doing: str, error: Exception) -> InternalError:
        noted.append(f"while {doing}: {error!r}")
        return plain(self, doing, error)

    monkeypatch.setattr(Faults, "note", note)
    yield
    if noted and not request.node.get_closest_marker("makes_mistakes"):
        pytest.fail(f"The server made mistakes {', '.join(noted)}.")


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves threads, sockets or files open: in a server each one is a leak."""
    threads_before, files_before = set(threading.enumerate()), _open_files()
    yield
    if request.node.get_closest_marker("keeps_resources"):
        return
    start, collected = time.monotonic(), 0.0
    while left := _left_behind(threads_before, files_before):
        now = time.monotonic()
        if now > start + GRACE_SECONDS:
            pytest.fail(f"The test left behind: {', '.join(left)}.")
        if now > collected + COLLECT_SECONDS:
            gc.collect()
            collected = now
        time.sleep(0.01)


def _left_behind(threads_before: set[threading.Thread], files_before: dict[int, str]) -> list[str]:
    threads = [f"thread {thread.name}" for thread in threading.enumerate() if thread not in threads_before]
    files = [name for number, name in _open_files().items() if files_before.get(number) != name]
    return threads + files


def _open_files() -> dict[int, str]:
    """Sockets and regular files of this process, by number; empty where the system does not list them."""
    if not OPEN_FILES.is_dir():
        return {}
    found = {}
    for entry in os.listdir(OPEN_FILES):
        try:
            name = os.readlink(OPEN_FILES / entry)
        except FileNotFoundError:
            # The listing itself needs a file, which is gone by now.
            continue
        if name.startswith(("socket:", "/")) and not name.startswith(("/dev/", "/proc/")):
            found[int(entry)] = name
    return found
