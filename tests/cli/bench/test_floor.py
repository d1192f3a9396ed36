"""What disk and network alone cost."""

from __future__ import annotations

from pathlib import Path

from tocsin.cli.bench.crew import Crew
from tocsin.cli.bench.floor import round_trip_seconds, sync_seconds
from tocsin.cli.bench.server import ForeignServer


def test_a_sync_takes_time_and_leaves_no_file(tmp_path: Path) -> None:
    assert 0 < sync_seconds(tmp_path, tries=5) < 1
    assert list(tmp_path.iterdir()) == []


def test_a_round_trip_takes_time() -> None:
    with Crew(ForeignServer("tocsin://127.0.0.1:1"), timeout_s=30) as crew:
        assert 0 < round_trip_seconds(crew, tries=5) < 1
