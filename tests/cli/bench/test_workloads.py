"""Every workload once, with few messages: the shape of the result, and that no process or file is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.shell import Shell

ALWAYS = {
    "workload", "size", "count", "seconds", "messages_per_second", "p50_us", "p99_us", "p999_us",
    "server_cpu_s_per_100k", "server_rss_mib",
}  # fmt: skip
SHELL = Shell("unused")


def bench(folder: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        SHELL.command("bench", *arguments, "--json", "--timeout", "60s"),
        capture_output=True,
        env=SHELL.environment,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert list(folder.iterdir()) == []
    shown: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert shown.keys() >= ALWAYS
    return shown


def check_rate(shown: dict[str, Any], messages: int) -> None:
    assert shown["messages_per_second"] == pytest.approx(messages / shown["seconds"], rel=0.01)
    assert shown["server_rss_mib"] > 5
    assert shown["p50_us"] is None


def test_publish(tmp_path: Path) -> None:
    shown = bench(tmp_path, "publish", "--count", "500", "--size", "50")
    assert (shown["workload"], shown["count"], shown["size"], shown["mode"]) == ("publish", 500, 50, "many")
    check_rate(shown, 500)


def test_e2e(tmp_path: Path) -> None:
    shown = bench(tmp_path, "e2e", "--count", "500")
    assert shown["mode"] == "many"
    assert shown["consumer_cpu_s"] > 0
    check_rate(shown, 500)


@pytest.mark.parametrize("mode", ["nowait", "properties"])
def test_a_running_server_can_be_measured(shell: Shell, tmp_path: Path, mode: str) -> None:
    shown = bench(tmp_path, "e2e", "--count", "500", "--mode", mode, "--url", shell.url)
    assert shown["mode"] == mode
    assert shown["messages_per_second"] > 0
    assert shown["server_rss_mib"] is None
    assert shown["server_cpu_s_per_100k"] is None


def test_latency(tmp_path: Path) -> None:
    # At this rate the floor, whose tries have the same pauses, is measured in moments.
    shown = bench(tmp_path, "latency", "--count", "50", "--rate", "4000")
    assert 0 < shown["p50_us"] <= shown["p99_us"] <= shown["p999_us"]
    assert shown["warm_up_messages"] == 4000


@pytest.mark.parametrize("producers", [1, 3])
def test_sync(tmp_path: Path, producers: int) -> None:
    shown = bench(tmp_path, "sync", "--count", "20", "--producers", str(producers))
    assert shown["producers"] == producers
    floor_us = shown["fdatasync_us"] + shown["round_trip_us"]
    assert shown["ratio"] == pytest.approx(shown["messages_per_second"] * floor_us / 1e6, rel=0.02)
    assert shown["p50_us"] > 0
    assert shown["ratio_p50"] == (None if producers > 1 else pytest.approx(floor_us / shown["p50_us"], rel=0.02))


def test_fanout_counts_deliveries(tmp_path: Path) -> None:
    shown = bench(tmp_path, "fanout", "--count", "500")
    check_rate(shown, 4 * 500)


def test_backlog(tmp_path: Path) -> None:
    shown = bench(tmp_path, "backlog", "--count", "300", "--batch", "7")
    assert shown["publish_per_second"] > 0
    assert shown["consume_per_second"] > 0
    assert shown["server_rss_backlog_mib"] > 5


def test_recovery(tmp_path: Path) -> None:
    shown = bench(tmp_path, "recovery", "--count", "300", "--batch", "7")
    assert 0 < shown["listening_seconds"] < shown["seconds"]
    assert shown["server_rss_after_mib"] > 5


def test_selector(tmp_path: Path) -> None:
    shown = bench(tmp_path, "selector", "--count", "500")
    assert shown["fill_per_second"] > 0
    assert shown["other_p99_us_without_search"] > 0


def test_a_stuck_run_ends_with_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        SHELL.command("bench", "latency", "--count", "100000", "--timeout", "1s"),
        capture_output=True,
        env=SHELL.environment,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert b"longer than 1 s (--timeout) and was stopped" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_terminated_run_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        SHELL.command("bench", "latency", "--count", "100000"), env=SHELL.environment, cwd=tmp_path
    ) as running:
        deadline = time.monotonic() + 30
        while not (children := children_of(running.pid)) and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 128 + signal.SIGTERM
    assert children
    assert not [pid for pid in children if os.path.exists(f"/proc/{pid}")]
    assert list(tmp_path.iterdir()) == []


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except FileNotFoundError:
        return []
    return [int(word) for word in text.split()]
