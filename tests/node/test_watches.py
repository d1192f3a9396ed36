"""The log tells once of what lasts, and once that it is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.cluster.envelope import GroupStatus, MemberRole
from tocsin.node.watches import FULL_SECONDS, STALLED_SECONDS, DiskWatch, Lasting, StallWatch


def test_what_lasts_is_told_once_and_its_end_too() -> None:
    lasting = Lasting(3.0)
    states = [False, True, True, True, True, True, False, False]
    told = [lasting.news(is_so, now) for now, is_so in enumerate(states)]
    assert told == [None, None, None, None, True, None, False, None]


def test_what_passes_is_not_told() -> None:
    lasting = Lasting(3.0)
    assert [lasting.news(now % 3 != 0, float(now)) for now in range(9)] == [None] * 9


def test_a_full_disk_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tocsin")
    watch = DiskWatch(Path("data"))
    watch.look(True, 0.0)
    assert not caplog.messages
    watch.look(True, FULL_SECONDS)
    watch.look(False, FULL_SECONDS + 1)
    assert [text.partition(":")[0] for text in caplog.messages] == [
        "The disk of data is full",
        "The disk of data has room again",
    ]


def test_a_group_that_stands_still_is_in_the_log_with_the_votes_that_it_misses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "tocsin")
    watch = StallWatch("group-1", {1: "cm-1", 3: "mm-1b"}.__getitem__)
    status = GroupStatus(64, 2, MemberRole.PRIMARY, (2,), (2, 3), 7, 7, 1, 0, 0, stalled=True, voteless=(3, 1))
    watch.look(status, 0.0)
    watch.look(status, STALLED_SECONDS)
    watch.look(status, STALLED_SECONDS + 1)
    assert caplog.messages == [
        "group-1 is led from here, but delivers and confirms nothing. No vote that counts is heard from mm-1b, cm-1."
    ]
