"""What was confirmed through a client manager is told to the voters: soon, and not too often."""

from __future__ import annotations

from tocsin.client_manager.commits_seen import CommitsSeen
from tocsin.cluster.register_messages import CommitSeen
from tocsin.model.limits import COMMIT_SEEN_SECONDS


def test_the_first_is_told_at_once_and_the_next_after_a_while() -> None:
    commits = CommitsSeen()
    commits.note(1, 64, 5)
    assert commits.take(1.0) == [(1, CommitSeen(64, 5))]
    assert commits.next_deadline() is None
    for lsn in (6, 8, 7):
        commits.note(1, 64, lsn)
    assert commits.take(1.0) == []
    assert commits.next_deadline() == 1.0 + COMMIT_SEEN_SECONDS
    assert commits.take(1.0 + COMMIT_SEEN_SECONDS) == [(1, CommitSeen(64, 8))]
    commits.note(1, 64, 8)
    assert commits.take(9.0) == [], "nothing new"


def test_groups_are_told_apart() -> None:
    commits = CommitsSeen()
    commits.note(2, 64, 5)
    commits.note(1, 64, 3)
    assert commits.take(0.0) == [(1, CommitSeen(64, 3)), (2, CommitSeen(64, 5))]


def test_after_a_forced_promotion_the_later_epoch_counts() -> None:
    commits = CommitsSeen()
    commits.note(1, 64, 110)
    commits.note(1, 128, 11)
    commits.note(1, 64, 111)
    assert commits.take(0.0) == [(1, CommitSeen(128, 11))]
