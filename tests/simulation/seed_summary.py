"""Prints what the seeds of whole clusters came to, also when the tests ran in several processes."""

from __future__ import annotations

import pytest

from tocsin.testing.clusters.tally import ClusterTally, table

TALLY = "tally of a cluster's seeds"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tallies: dict[str, ClusterTally] = {}
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, value in report.user_properties:
            if name == TALLY:
                shape, fields = value
                tallies.setdefault(shape, ClusterTally()).join(fields)
    if tallies:
        terminalreporter.write_sep("-", "whole clusters in simulated time")
        for line in table(dict(sorted(tallies.items()))):
            terminalreporter.write_line(line)
