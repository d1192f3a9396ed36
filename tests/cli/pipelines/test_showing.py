"""The line of progress and the report."""

from __future__ import annotations

import io
import sys

import pytest
from tests.cli.shell import Terminal

from tocsin.cli.pipelines.showing import ProgressLine, progress_text, show_report
from tocsin.spark.pipelines.definition import Report, Table
from tocsin.spark.pipelines.watching import Watched


@pytest.mark.parametrize(
    ("watched", "text"),
    [
        (Watched(), "0 rows"),
        (Watched(batches=2, rows=1_234_000, rows_per_second=45120.4), "1,234,000 rows   45,120 rows/s   batch 2"),
        (
            Watched(batches=1, rows=5, rows_per_second=5.0, lag={"a": 0, "b": 1200}),
            "5 rows   5 rows/s   batch 1   lag b 1,200, a 0",
        ),
        (
            Watched(lag=dict.fromkeys("abcdef", 1)),
            "0 rows   lag a 1, b 1, c 1, d 1 and 2 more",
        ),
    ],
)
def test_progress_in_words(watched: Watched, text: str) -> None:
    assert progress_text(watched) == text


def test_on_a_terminal_one_line_is_written_over_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressLine() as line:
        line.wait("starting Spark")
        line.show(Watched(rows=1))
        line.show(Watched(rows=1))
        line.note("A sentence.")
        line.show(Watched(rows=2))
    clear = "\r\x1b[2K"
    seen = terminal.getvalue()
    assert seen == f"{clear}starting Spark...{clear}1 rows{clear}A sentence.\n{clear}2 rows{clear}"


def test_in_a_log_progress_comes_now_and_then_when_there_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    clock = [0.0]
    monkeypatch.setattr("tocsin.cli.pipelines.showing.time.monotonic", lambda: clock[0])
    with ProgressLine() as line:
        line.wait("starting Spark")
        for clock[0], rows in ((1.0, 5), (11.0, 6), (12.0, 7), (22.0, 6), (33.0, 8)):
            line.show(Watched(rows=rows))
    assert log.getvalue() == "6 rows\n8 rows\n"


def test_a_report_as_json_as_fields_and_as_tables(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    report = Report({"rows": 7, "lag": {"a": 1200}}, notes=["A sentence."])
    show_report(report, json=True)
    assert capfdbinary.readouterr().out == b'{"rows": 7, "lag": {"a": 1200}}\n'
    show_report(report, json=False)
    seen = capfdbinary.readouterr()
    assert (seen.out, seen.err) == (b"rows\t7\nlag\ta 1,200\n", b"A sentence.\n")
    show_report(Report({}, [Table("t", ("x", "y"), [(1, "z")]), Table("empty", ("x",), [])]), json=False)
    assert capfdbinary.readouterr().out == b"1\tz\n"
