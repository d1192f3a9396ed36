"""What crosses the bus comes back from its bytes, layer by layer."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.commands import Answer, CloseConnection, GrantCredit, PauseSession, SettledTo
from tocsin.cluster.envelope import (
    Commands,
    Envelope,
    GroupBytes,
    GroupStatus,
    MemberRole,
    NameChanged,
    Replies,
    Unlinked,
    decode,
    encode,
)
from tocsin.model.errors import ProtocolError
from tocsin.model.limits import COMMANDS_PER_MESSAGE_MAX, GROUP_MEMBERS_MAX

U16, U32, U64 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
ID = st.binary(min_size=16, max_size=16)
COMMAND = st.builds(PauseSession, ID, U32) | st.builds(GrantCredit, st.tuples(ID, U32), U64, U64)
REPLY = st.builds(SettledTo, st.tuples(ID, U32), U64) | st.builds(Answer, U64, st.just({"a": 1}))
NODES = st.lists(U16, max_size=GROUP_MEMBERS_MAX).map(tuple)
MESSAGES = st.one_of(
    st.builds(Commands, U32, U32, U64, st.lists(COMMAND, max_size=4)),
    st.builds(Replies, U32, U32, U64, st.lists(REPLY, max_size=4)),
    st.builds(Unlinked, U32, U32),
    st.builds(GroupStatus, U32, U16, st.sampled_from(MemberRole), NODES, NODES, U64, U64, U32, U64, U64, U32, U64),
    st.builds(NameChanged, st.text(st.characters(exclude_categories=["Cs"]), max_size=12)),
)


@given(MESSAGES)
def test_round_trip(message: Envelope) -> None:
    assert decode(b"".join(encode(message))) == message


def test_a_message_of_the_group_passes_through() -> None:
    parts = encode(GroupBytes((b"\x01\x12", b"rest")))
    assert parts == [b"G", b"\x01\x12", b"rest"]
    came = decode(b"".join(parts))
    assert isinstance(came, GroupBytes)
    assert b"".join(came.parts) == b"\x01\x12rest"


@given(st.sampled_from(b"CRUSN"), st.binary(max_size=120))
def test_garbage_is_refused_or_read_but_never_a_crash(layer: int, data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode(bytes([layer]) + data)


@pytest.mark.parametrize(
    "payload", [b"", b"?", b"U" + bytes(9), b"U" + bytes(7), b"S" + bytes(6) + b"\x09" + bytes(50)]
)
def test_what_nobody_would_send_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(payload)


def test_more_commands_than_a_message_takes() -> None:
    with pytest.raises(ProtocolError, match="is the most"):
        encode(Commands(1, 1, 0, [CloseConnection(b"c" * 16)] * (COMMANDS_PER_MESSAGE_MAX + 1)))
    raw = b"C" + bytes(16) + (COMMANDS_PER_MESSAGE_MAX + 1).to_bytes(2, "little")
    with pytest.raises(ProtocolError, match="is the most"):
        decode(raw)
