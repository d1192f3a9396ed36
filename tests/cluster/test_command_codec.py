"""Every command comes back from its bytes; nothing else is taken for one."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.command_codec import pack_command, unpack_command
from tocsin.cluster.commands import (
    Administer,
    CloseConnection,
    CloseConsumer,
    CloseProducer,
    CloseSession,
    Command,
    GrantCredit,
    OpenConsumer,
    OpenProducer,
    PauseSession,
    Publish,
    SettleMessages,
)
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.model.batch import BatchHeader, Block, Column, encode_block
from tocsin.model.columns import text_column
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import ProtocolError
from tocsin.model.identity import DestinationId
from tocsin.model.limits import HELD_RANGES_MAX
from tocsin.model.ranges import merged
from tocsin.wire.frames import Outcome, Settle

U32, U63, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
ID = st.binary(min_size=16, max_size=16)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEY = st.tuples(ID, U32)
SPANS = st.lists(st.tuples(U63, U63).map(lambda pair: (min(pair), max(pair))), max_size=4)
DESTINATION = st.builds(Destination, st.sampled_from(Kind), TEXT, st.booleans())
FIELDS = st.dictionaries(TEXT, st.none() | st.booleans() | I64 | TEXT | ID | st.lists(I64, max_size=3), max_size=4)
DELAY = st.none() | st.integers(0, 2**32 - 2)
# A settlement is merged where it is read.
SETTLE = st.builds(Settle, U32, st.sampled_from(Outcome), U64, SPANS.map(merged), DELAY, TEXT)

# One strategy for each kind but Publish, whose blocks do not compare.
COMMANDS = st.one_of(
    st.builds(OpenProducer, U64, ID, U32, DESTINATION, ID, U32, U64),
    st.builds(CloseProducer, ID, U64),
    st.builds(
        OpenConsumer, U64, ID, U32, DESTINATION, ID, st.none() | TEXT, TEXT, st.none() | TEXT, st.booleans(),
        st.none() | TEXT, st.booleans(), st.booleans(), st.none() | FIELDS, I64, I64, st.none() | SPANS, U32, U64,
    ),
    st.builds(CloseConsumer, U64, KEY),
    st.builds(GrantCredit, KEY, U64, U64),
    st.builds(SettleMessages, KEY, SETTLE),
    st.builds(PauseSession, ID, U32),
    st.builds(CloseSession, U64, ID, st.booleans(), U32),
    st.builds(CloseConnection, ID, U64),
    st.builds(Administer, U64, TEXT, FIELDS),
)  # fmt: skip

BLOCK = encode_block(BatchHeader("orders", Kind.QUEUE, 2), [text_column(Column.BODY, ["one", "two"])])
PUBLISH = Publish(b"s" * 16, 7, DestinationId(3), Block(memoryview(BLOCK)), "billing")


def packed(command: Command) -> bytes:
    packer = Packer()
    pack_command(packer, command)
    return packer.joined()


def unpacked(data: bytes) -> Command:
    unpacker = Unpacker(data)
    command = unpack_command(unpacker)
    unpacker.end()
    return command


@given(COMMANDS)
def test_round_trip(command: Command) -> None:
    assert unpacked(packed(command)) == command


@pytest.mark.parametrize("client_id", [None, "", "billing"])
def test_a_published_block_is_usable_at_the_other_end(client_id: str | None) -> None:
    came = unpacked(packed(replace(PUBLISH, client_id=client_id)))
    assert isinstance(came, Publish)
    assert (came.session, came.producer, came.destination, came.client_id) == (b"s" * 16, 7, 3, client_id)
    assert bytes(came.block.data) == BLOCK
    assert (came.block.count, came.block.destination) == (2, "orders")
    body = came.block.column(Column.BODY)
    assert body is not None and bytes(body.data) == b"onetwo"


def test_a_block_is_copied_neither_on_the_way_out_nor_on_the_way_in() -> None:
    packer = Packer()
    pack_command(packer, PUBLISH)
    assert any(part is PUBLISH.block.data for part in packer.parts)
    message = packer.joined()
    came = unpack_command(Unpacker(message))
    assert isinstance(came, Publish)
    assert isinstance(came.block.data, memoryview) and came.block.data.obj is message


def test_every_command_has_its_bytes() -> None:
    shown: set[type] = {Publish}
    for kind in (
        OpenProducer(1, b"s" * 16, 1, Destination(Kind.QUEUE, "q"), b"c" * 16),
        CloseProducer(b"s" * 16, DestinationId(1)),
        OpenConsumer(1, b"s" * 16, 1, Destination(Kind.TOPIC, "t"), b"c" * 16, None),
        CloseConsumer(1, (b"s" * 16, 1)),
        GrantCredit((b"s" * 16, 1), 1, 1),
        SettleMessages((b"s" * 16, 1), Settle(1, Outcome.NACK, 1, [(1, 2)])),
        PauseSession(b"s" * 16),
        CloseSession(1, b"s" * 16, True),
        CloseConnection(b"c" * 16, 7),
        Administer(1, "destination.list"),
    ):
        assert unpacked(packed(kind)) == kind
        shown.add(type(kind))
    assert shown == set(get_args(Command))


@given(st.integers(1, 11), st.binary(max_size=200))
def test_garbage_is_refused_or_read_but_never_a_crash(number: int, data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        unpack_command(Unpacker(bytes([number]) + data))


@given(COMMANDS | st.just(PUBLISH), st.data())
def test_a_changed_or_cut_command_is_refused_or_read_but_never_a_crash(command: Command, data: st.DataObject) -> None:
    raw = bytearray(packed(command))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        unpacked(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


def test_an_unknown_type() -> None:
    with pytest.raises(ProtocolError, match="unknown type 99"):
        unpack_command(Unpacker(b"\x63"))


def test_a_block_whose_header_is_broken() -> None:
    raw = packed(PUBLISH).replace(b"Tb", b"xx", 1)
    with pytest.raises(ProtocolError, match="magic"):
        unpacked(raw)


def test_more_ranges_than_a_consumer_can_hold() -> None:
    opened = OpenConsumer(1, b"s" * 16, 1, Destination(Kind.QUEUE, "q"), b"c" * 16, None, held=[])
    raw = packed(opened)[:-4] + (HELD_RANGES_MAX + 1).to_bytes(4, "little")
    with pytest.raises(ProtocolError, match="ranges"):
        unpacked(raw)


def test_a_text_that_is_too_long_is_refused_before_it_leaves() -> None:
    with pytest.raises(ProtocolError, match="too long"):
        packed(Administer(1, "x" * 70_000))
