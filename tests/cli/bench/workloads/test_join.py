"""How the longest pause is found."""

from __future__ import annotations

import pytest

from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.workloads.join import longest_pause_s

SECOND = 1_000_000_000


def test_a_pause_counts_also_when_it_begins_before_or_ends_after() -> None:
    confirmed = [each * SECOND for each in (0, 4, 5, 6, 9)]
    assert longest_pause_s(confirmed, 1 * SECOND, 5 * SECOND) == 4.0
    assert longest_pause_s(confirmed, 5 * SECOND, 7 * SECOND) == 3.0
    assert longest_pause_s(confirmed, 4 * SECOND, 5 * SECOND) == 4.0


def test_without_a_confirmation_after_the_end_the_pause_has_no_end() -> None:
    with pytest.raises(BenchFailed):
        longest_pause_s([0, SECOND], 0, 2 * SECOND)
