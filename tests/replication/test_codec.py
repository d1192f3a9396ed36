"""Every message comes back from its bytes; nothing else is taken for one."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.group_config import Ballot, GroupConfig, Replica
from tocsin.cluster.lives import Known, Life, Seen
from tocsin.cluster.register_messages import (
    Accept,
    Accepted,
    CommitSeen,
    Heartbeat,
    HeartbeatAnswer,
    Initialise,
    Outdated,
    Prepare,
    Promise,
    Refuse,
    Resigned,
)
from tocsin.model.errors import ProtocolError
from tocsin.model.limits import FETCH_ENTRIES_MAX, ORDER_ENTRIES_MAX
from tocsin.replication.codec import VERSION, decode, encode
from tocsin.replication.log import Entry
from tocsin.replication.messages import (
    Acked,
    CopyGiven,
    CopyWanted,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    GroupMessage,
    Nack,
    Order,
    OrderEntry,
    Reference,
    SnapshotChunk,
    SnapshotWanted,
    Stand,
)
from tocsin.replication.rules import LogEnd

U16, U32, U64 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
TIME = st.floats(allow_nan=False)
DIGEST = st.binary(min_size=16, max_size=16)
DATA = st.binary(max_size=30)
REPLICA = st.builds(Replica, U16, U64)
BALLOT = st.builds(Ballot, U64, U16, U32)
REPLICAS = st.lists(REPLICA, max_size=4).map(tuple)
CONFIG = st.builds(GroupConfig, U64, U32, U16, REPLICAS, REPLICAS, U16)
REFERENCE = st.builds(Reference, DIGEST, U64, DIGEST)
ECHOES = st.lists(st.tuples(U16, TIME), max_size=4).map(tuple)
LIFE = st.builds(Life, U32, st.lists(U32, max_size=4).map(tuple), U64)
SEEN = st.builds(Seen, REPLICA, U32, U64)
KNOWN = st.builds(Known, st.lists(SEEN, max_size=3).map(tuple), st.lists(SEEN, max_size=3).map(tuple))
KIND = st.integers(0, 255)
ORDER_ENTRIES = st.lists(st.builds(OrderEntry, KIND, DATA, st.none() | REFERENCE), max_size=4).map(tuple)
ENTRIES = st.lists(st.builds(Entry, U32, KIND, DATA.map(lambda data: (data,))), max_size=4).map(tuple)
COPY_WANTED = st.builds(CopyWanted, U64, U32, U64)

MESSAGES = st.one_of(
    st.builds(Prepare, BALLOT),
    st.builds(Promise, BALLOT, REPLICA, BALLOT, st.none() | CONFIG, U64, LIFE, KNOWN),
    st.builds(Refuse, BALLOT, BALLOT, TIME),
    st.builds(Accept, BALLOT, CONFIG),
    st.builds(Accepted, BALLOT, REPLICA, LIFE),
    st.builds(Initialise, CONFIG),
    st.builds(Heartbeat, U32, TIME, st.booleans(), U64, U64, CONFIG, ECHOES, KNOWN),
    st.builds(HeartbeatAnswer, U32, TIME, TIME, st.booleans(), REPLICA, LIFE),
    st.builds(Resigned, U32, TIME),
    st.builds(CommitSeen, U32, U64),
    st.builds(Outdated, SEEN),
    st.builds(Stand, U32),
    COPY_WANTED,
    st.builds(CopyGiven, COPY_WANTED, st.booleans(), DATA),
    st.builds(Order, U32, U32, U64, U64, ORDER_ENTRIES),
    st.builds(Acked, U32, U64, U64, LIFE),
    st.builds(Nack, U32),
    st.builds(Fetch, U32, U64, U32),
    st.builds(Fetched, U32, U64, U32, U64, U64, ENTRIES),
    st.builds(Fence, U32),
    st.builds(Fenced, U32, REPLICA, st.builds(LogEnd, U32, U64), LIFE),
    st.builds(SnapshotWanted, U64, U32),
    st.builds(SnapshotChunk, U64, U32, U32, U32, DIGEST, DIGEST, DATA),
)


@given(MESSAGES)
def test_round_trip(message: GroupMessage) -> None:
    assert decode(b"".join(encode(message))) == message


def test_every_type_has_bytes() -> None:
    for each in get_args(GroupMessage):
        assert each.__name__ in str(MESSAGES), f"{each.__name__} is not in the round trip"


@given(MESSAGES, st.data())
def test_a_message_that_is_cut_off_is_refused(message: GroupMessage, data: st.DataObject) -> None:
    whole = b"".join(encode(message))
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ProtocolError):
        decode(whole[:length])


@given(MESSAGES)
def test_bytes_behind_the_end_are_refused(message: GroupMessage) -> None:
    with pytest.raises(ProtocolError, match="after its end"):
        decode(b"".join(encode(message)) + b"\0")


@given(st.binary(max_size=80))
def test_garbage_is_refused_or_read_never_anything_else(data: bytes) -> None:
    try:
        message = decode(bytes([VERSION]) + data)
    except ProtocolError:
        return
    assert decode(b"".join(encode(message))) == message or message != message


def test_another_version_and_an_unknown_type() -> None:
    with pytest.raises(ProtocolError, match="version 1"):
        decode(b"\x01\x01")
    with pytest.raises(ProtocolError, match="type 99"):
        decode(bytes([VERSION, 99]))


def test_counts_are_bounded() -> None:
    too_many = Order(1, 1, 1, 1, (OrderEntry(1, b"", None),) * (ORDER_ENTRIES_MAX + 1))
    with pytest.raises(ProtocolError, match="items where at most"):
        decode(b"".join(encode(too_many)))
    fetched = Fetched(1, 1, 1, 1, 1, (Entry(1, 1, (b"",)),) * (FETCH_ENTRIES_MAX + 1))
    with pytest.raises(ProtocolError, match="items where at most"):
        decode(b"".join(encode(fetched)))


def test_a_length_alone_makes_nobody_allocate() -> None:
    """An ORDER that announces four gigabytes and brings ten bytes."""
    head = b"".join(encode(Order(1, 1, 1, 1, (OrderEntry(1, b"", None),))))
    lying = head[:-5] + b"\xff\xff\xff\xff" + bytes(10)
    with pytest.raises(ProtocolError, match="4294967295 bytes"):
        decode(lying)
