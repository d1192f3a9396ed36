"""Prints what campaigns of faults came to, also when the tests ran in several processes."""

from __future__ import annotations

import pytest

SUMMARY = "summary of a campaign"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    found = [(report.nodeid, value) for report in reports for name, value in report.user_properties if name == SUMMARY]
    if found:
        terminalreporter.write_sep("-", "faults on real processes")
        for test, lines in found:
            terminalreporter.write_line(test)
            for line in str(lines).splitlines():
                terminalreporter.write_line(f"  {line}")
