"""The vote file: what was written comes back, and nothing else is believed."""

from __future__ import annotations

import struct

import pytest

from tocsin.cluster.group_config import Ballot, GroupConfig, Replica
from tocsin.cluster.lives import Known, Seen
from tocsin.cluster.vote import Vote, decode_vote, encode_vote
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged, NewerFormat

CONFIG = GroupConfig(7, 130, 2, (Replica(1, 11), Replica(2, 22)), (Replica(1, 5), Replica(2, 6), Replica(20, 7)), 2)
KNOWN = Known((Seen(Replica(1, 11), 5, 110),), (Seen(Replica(1, 5), 5, 4),))
VOTES = [
    Vote(9), Vote(9, Ballot(3, 1, 2)), Vote(9, Ballot(4, 2, 1), Ballot(3, 1, 2), CONFIG),
    Vote(9, Ballot(4, 2, 1), Ballot(3, 1, 2), CONFIG, KNOWN, (6, 7)),
]  # fmt: skip


@pytest.mark.parametrize("vote", VOTES, ids=["blank", "promised", "accepted", "remembering"])
def test_round_trip(vote: Vote) -> None:
    assert decode_vote(encode_vote(vote), "vote") == vote


def test_it_is_as_small_as_it_should_be() -> None:
    assert len(encode_vote(VOTES[-1])) < 250


@pytest.mark.parametrize("byte", range(len(encode_vote(VOTES[-1]))))
def test_no_changed_byte_is_believed(byte: int) -> None:
    data = bytearray(encode_vote(VOTES[-1]))
    data[byte] ^= 0x10
    with pytest.raises(JournalDamaged):
        decode_vote(bytes(data), "vote")


@pytest.mark.parametrize("length", range(len(encode_vote(VOTES[-1]))))
def test_no_shorter_file_is_believed(length: int) -> None:
    with pytest.raises(JournalDamaged):
        decode_vote(encode_vote(VOTES[-1])[:length], "vote")


def test_a_newer_format_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.cluster.vote.FORMAT_VERSION", 3)
    data = encode_vote(VOTES[0])
    monkeypatch.undo()
    with pytest.raises(NewerFormat, match="format 3"):
        decode_vote(data, "vote")


def test_the_first_format_is_read() -> None:
    """It ended with the value."""
    now = encode_vote(VOTES[2])
    known_and_starts = 2 + 2 + 1
    body = now[:8] + struct.pack("<H", 1) + now[10 : -4 - known_and_starts]
    assert decode_vote(body + struct.pack("<I", crc32(body)), "vote") == VOTES[2]


def test_what_to_do_with_a_damaged_one() -> None:
    """An older copy of a vote is a forgotten promise, so nobody may be told to put one back."""
    with pytest.raises(JournalDamaged, match="Move it away, and the node comes back as a new voter") as refused:
        decode_vote(encode_vote(VOTES[2])[:-1] + b"x", "vote")
    assert "Restore" not in str(refused.value)
