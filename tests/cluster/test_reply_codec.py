"""Every answer comes back from its bytes; nothing else is taken for one."""

from __future__ import annotations

import contextlib
from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.commands import (
    Answer,
    ConsumerEnded,
    Delivery,
    Failed,
    NotStored,
    Reply,
    SettledTo,
    Stored,
    Unreadable,
)
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.cluster.reply_codec import pack_reply, unpack_reply
from tocsin.model.errors import DataDamaged, InvalidSelector, ProtocolError, StorageFull, TocsinError, from_code
from tocsin.model.limits import ERROR_TEXT_BYTES_MAX

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
ID = st.binary(min_size=16, max_size=16)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEY = st.tuples(ID, U32)
ERROR = st.builds(from_code, st.integers(1, 29), TEXT)
RANGES = st.lists(st.tuples(U32, U32, U32, U32), max_size=4)
FIELDS = st.dictionaries(TEXT, st.none() | st.booleans() | I64 | TEXT | ID | st.lists(I64, max_size=3), max_size=4)

REPLIES = st.one_of(
    st.builds(Stored, ID, U32, U64, U32),
    st.builds(NotStored, ID, U32, U64, U64, ERROR),
    st.builds(Delivery, KEY, U64, I64, RANGES, st.binary(max_size=40)),
    st.builds(SettledTo, KEY, U64),
    st.builds(ConsumerEnded, KEY, st.none() | ERROR),
    st.builds(Answer, U64, FIELDS),
    st.builds(Failed, U64, ERROR),
    st.builds(Unreadable, KEY, ERROR),
)
SHOWN: list[Reply] = [
    Stored(b"s" * 16, 1, 2, 3),
    NotStored(b"s" * 16, 1, 2, 3, StorageFull("The disk is full.")),
    Delivery((b"s" * 16, 1), 2, 3, [(0, 1, 1, 0)], b"block"),
    SettledTo((b"s" * 16, 1), 2),
    ConsumerEnded((b"s" * 16, 1), None),
    Answer(1, {"a": [1, 2]}),
    Failed(1, InvalidSelector("At 3.")),
    Unreadable((b"s" * 16, 1), DataDamaged("Offsets 1 to 3.")),
]


def packed(reply: Reply) -> bytes:
    packer = Packer()
    pack_reply(packer, reply)
    return packer.joined()


def unpacked(data: bytes) -> Reply:
    unpacker = Unpacker(data)
    reply = unpack_reply(unpacker)
    unpacker.end()
    return reply


def comparable(reply: Reply) -> list[Any]:
    """Errors do not compare, their kind and text do."""
    values = [getattr(reply, each.name) for each in fields(reply)]
    plain = [(type(each), str(each)) if isinstance(each, TocsinError) else each for each in values]
    return [type(reply), *plain]


@given(REPLIES)
def test_round_trip(reply: Reply) -> None:
    assert comparable(unpacked(packed(reply))) == comparable(reply)


def test_every_reply_has_its_bytes() -> None:
    assert {type(each) for each in SHOWN} == set(get_args(Reply))
    for each in SHOWN:
        assert comparable(unpacked(packed(each))) == comparable(each)


def test_a_block_is_copied_neither_on_the_way_out_nor_on_the_way_in() -> None:
    block = b"B" * 1000
    packer = Packer()
    pack_reply(packer, Delivery((b"s" * 16, 1), 2, 3, [(0, 9, 1, 0)], block))
    assert any(part is block for part in packer.parts)
    message = packer.joined()
    came = unpack_reply(Unpacker(message))
    assert isinstance(came, Delivery)
    assert isinstance(came.block, memoryview) and came.block.obj is message and came.block == block


def test_a_very_long_reason_is_cut_at_a_whole_character() -> None:
    came = unpacked(packed(Failed(1, TocsinError("ä" * ERROR_TEXT_BYTES_MAX))))
    assert isinstance(came, Failed)
    assert str(came.error) == "ä" * (ERROR_TEXT_BYTES_MAX // 2)


@given(st.integers(1, 7), st.binary(max_size=200))
def test_garbage_is_refused_or_read_but_never_a_crash(number: int, data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        unpack_reply(Unpacker(bytes([number]) + data))


@given(REPLIES, st.data())
def test_a_changed_or_cut_reply_is_refused_or_read_but_never_a_crash(reply: Reply, data: st.DataObject) -> None:
    raw = bytearray(packed(reply))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        unpacked(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


def test_an_unknown_type() -> None:
    with pytest.raises(ProtocolError, match="unknown type 99"):
        unpack_reply(Unpacker(b"\x63"))


def test_a_delivery_over_the_bounds() -> None:
    raw = bytearray(packed(SHOWN[2]))
    raw[21:25] = (1 << 31).to_bytes(4, "little")
    with pytest.raises(ProtocolError, match="over the bound"):
        unpacked(bytes(raw))
