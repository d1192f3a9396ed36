"""Three processes on loopback multicast, with few messages: the shape of the result, and that everything arrives."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.cli.shell import Shell

SHELL = Shell("unused")


def bench(folder: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        SHELL.command("bench", "bus", *arguments, "--json", "--timeout", "60s"),
        capture_output=True,
        env=SHELL.environment,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert list(folder.iterdir()) == []
    shown: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return shown


def test_sealed_and_plain(tmp_path: Path) -> None:
    shown = bench(tmp_path, "--count", "100")
    assert (shown["workload"], shown["size"], shown["mtu"], shown["receivers"]) == ("bus", 64_000, 65_535, 2)
    assert shown["payload_mb_per_second"] == pytest.approx(100 * 64_000 / shown["seconds"] / 1e6, rel=0.05)
    assert shown["plain_mb_per_second"] > 0


def test_small_packets_with_loss(tmp_path: Path) -> None:
    shown = bench(tmp_path, "--count", "50", "--size", "20000", "--mtu", "1400", "--loss", "20")
    assert shown["loss_percent"] == 20
    assert shown["packets_sent_again"] > 100
