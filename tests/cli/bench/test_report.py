"""Percentiles, and the shape of a result."""

from __future__ import annotations

import json

import pytest

from tocsin.cli.bench.report import Result, percentiles_us, print_result, print_results
from tocsin.cli.bench.settings import Settings, Workload

RESULT = Result(
    settings=Settings(workload=Workload.E2E, count=10),
    seconds=0.5,
    messages_per_second=20.0,
    more={"mode": "many"},
)


def test_percentiles_are_values_that_were_measured() -> None:
    took = [number * 1_000 for number in range(1, 1001)]
    assert percentiles_us(reversed(took)) == {"p50_us": 500.0, "p99_us": 990.0, "p999_us": 999.0}
    assert percentiles_us([7_000]) == {"p50_us": 7.0, "p99_us": 7.0, "p999_us": 7.0}
    assert percentiles_us([]) == {"p50_us": None, "p99_us": None, "p999_us": None}


def test_the_object_has_every_number_and_null_for_what_was_not_measured() -> None:
    shown = json.loads(json.dumps(RESULT.as_object()))
    assert shown["workload"] == "e2e"
    assert shown["messages_per_second"] == 20.0
    assert shown["p50_us"] is None
    assert shown["mode"] == "many"
    assert list(shown)[:10] == [
        "workload", "size", "count", "seconds", "messages_per_second",
        "p50_us", "p99_us", "p999_us", "server_cpu_s_per_100k", "server_rss_mib",
    ]  # fmt: skip


def test_tables_leave_out_what_was_not_measured(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_result(RESULT)
    lines = dict(line.split("\t") for line in capfdbinary.readouterr().out.decode().splitlines())
    assert lines["messages per second"] == "20"
    assert "p50 us" not in lines
    print_results([RESULT, RESULT])
    rows = capfdbinary.readouterr().out.decode().splitlines()
    assert rows[0].split("\t") == ["e2e", "10", "20", "-", "-", "-", "-", "mode many"]
    assert len(rows) == 2
