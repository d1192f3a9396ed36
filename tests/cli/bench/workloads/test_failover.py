"""How the times of a fail-over are taken from the sender's notes."""

from __future__ import annotations

import pytest

from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.settings import Settings, Workload
from tocsin.cli.bench.workloads.failover import pauses_s, result

SENT = [0, 1_000, 2_000, 3_000, 4_000]
SETTINGS = Settings(workload=Workload.FAILOVER, count=0, rate=1_000)
WELL = {"came": 5, "missing": [], "again": 0, "unmarked": 0, "disorder": 0}


def test_only_a_message_that_was_sent_after_the_kill_ends_the_pause() -> None:
    confirmed = [500, 1_700, 5_000, 5_001, 5_002]
    # Message 1 was confirmed after the kill, but it was stored before.
    assert pauses_s([1_600], SENT, confirmed) == [(5_000 - 1_600) / 1e9]
    assert pauses_s([100, 3_500], SENT, confirmed) == [1_600 / 1e9, 1_502 / 1e9]


def test_a_kill_after_which_nothing_is_confirmed_is_no_number() -> None:
    with pytest.raises(BenchFailed, match="after the last kill"):
        pauses_s([3_500], SENT, [500, 1_700, 5_000])


def test_the_result_has_the_middle_and_the_longest() -> None:
    moments = [number * 1_000_000_000 for number in range(5)]
    confirmed = [each + 500_000_000 for each in moments]
    shown = result(SETTINGS, [1, 2_000_000_001, 2_900_000_000], {"sent_ns": moments, "confirmed_ns": confirmed}, WELL)
    found = shown.as_object()
    assert (found["runs"], found["p50_s"], found["max_s"]) == (3, 1.5, 1.5)
    assert (found["lost"], found["duplicates"]) == (0, 0)


def test_what_was_confirmed_and_did_not_come_is_lost() -> None:
    notes = {"sent_ns": SENT, "confirmed_ns": [each + 1 for each in SENT]}
    for received, lost in (({"came": 3}, 2), ({"missing": [1, 2]}, 2), ({"came": 4, "missing": [0]}, 2)):
        assert result(SETTINGS, [1], notes, {**WELL, **received}).as_object()["lost"] == lost
    assert result(SETTINGS, [1], notes, {**WELL, "unmarked": 3}).as_object()["duplicates"] == 3
