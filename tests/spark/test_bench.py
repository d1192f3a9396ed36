"""`make bench-spark` with few rows: every figure is there. What they say is for a quiet machine and many rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.spark import figures, rows

ROOT = Path(__file__).parent.parent.parent
SECONDS_MAX = 400.0


@pytest.mark.long
@pytest.mark.timeout(SECONDS_MAX + 10)
def test_a_small_run_gives_all_figures(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    small = ("--rows", str(rows.ROWS_MIN), "--rounds", "1", "--no-start")
    command = [sys.executable, "-m", "benchmarks.spark", *small, "--output", str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    for name in ("read_ratio", "to_parquet_ratio", "tuple_ratio", "sink_ratio", "projection_ratio", "trigger_ms_p50"):
        assert found[name] > 0
    assert found["rows"] == rows.ROWS_MIN and set(found["addbatch_ms"]) == {"250000", "1000000"}
    for name in ("million_to_sink", "plain_send_many", "parquet_to_noop", "topic_to_noop"):
        assert found["rows_per_second"][name] > 0


def test_ratios_are_rates_against_each_other() -> None:
    rates = {
        "parquet_to_noop": 100.0,
        "topic_to_noop": 80.0,
        "topic_projected_to_noop": 120.0,
        "topic_as_tuples_to_noop": 10.0,
        "parquet_key_value_to_noop": 200.0,
        "parquet_to_parquet": 50.0,
        "topic_to_parquet": 45.0,
        "parquet_to_sink": 50.0,
    }
    assert figures.ratios(rates) == {
        "read_ratio": 0.8,
        "to_parquet_ratio": 0.9,
        "tuple_ratio": 8.0,
        "sink_ratio": 0.5,
        "sink_ratio_same_columns": 0.25,
        "projection_ratio": 1.5,
    }


def test_a_goal_that_is_missed_is_seen() -> None:
    met = {"read_ratio": 0.75, "trigger_ms_p50": 250.0, "rows_per_second": {}}
    assert "MISSED" not in "".join(figures.lines(met))
    missed = {"read_ratio": 0.74, "trigger_ms_p50": 251.0, "rows_per_second": {}}
    assert "".join(figures.lines(missed)).count("MISSED") == 2


def test_rows_have_the_sizes_that_are_promised() -> None:
    for number in (0, 1, 4_999_999):
        assert len(rows.value_of(number)) == rows.VALUE_BYTES and len(rows.key_of(number)) == rows.KEY_BYTES
    assert len({rows.value_of(number) for number in range(1_000)}) == 1_000
