"""Nodes as processes that outlive the command that started them; nobody else is ever signalled."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tocsin.cli.cluster.processes import NodeProcess, until

PATIENCE = 20.0


@pytest.fixture
def process(tmp_path: Path) -> NodeProcess:
    return NodeProcess(tmp_path)


def test_it_runs_until_it_is_told_to_stop(process: NodeProcess, tmp_path: Path) -> None:
    assert process.pid() is None and not process.signal(signal.SIGTERM)
    pid = process.start(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")])
    try:
        assert process.pid() == pid == NodeProcess(tmp_path).pid()
        assert os.getsid(pid) == pid
        assert until(lambda: "listens" in process.log.read_text(), PATIENCE)
        assert process.signal(signal.SIGTERM)
        assert process.wait_until_gone(PATIENCE)
    finally:
        process.signal(signal.SIGKILL)
    assert "Stopped" in process.last_words()


def test_one_that_ends_by_itself_says_why(process: NodeProcess) -> None:
    process.start(["node", "--config", "nowhere.toml"])
    assert process.wait_until_gone(PATIENCE)
    assert process.last_words().endswith("nowhere.toml cannot be read: No such file or directory.")


def test_a_number_that_somebody_else_has_now_is_not_signalled(process: NodeProcess, tmp_path: Path) -> None:
    """This test would end itself."""
    (tmp_path / "pid").write_text(json.dumps({"pid": os.getpid(), "began": "1"}))
    assert process.pid() is None and not process.signal(signal.SIGKILL)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x"}'])
def test_a_file_that_says_nothing_is_nobody(process: NodeProcess, tmp_path: Path, text: str) -> None:
    (tmp_path / "pid").write_text(text)
    assert process.pid() is None
