from __future__ import annotations

import struct
from array import array
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.model.forging import patch, patch_entry, seal
from tests.model.strategies import Rows, rows

from tocsin.model import batch
from tocsin.model.batch import (
    ENTRY,
    FLAG_GROUPS,
    HEADER,
    BatchHeader,
    Block,
    BodyKind,
    Column,
    ColumnData,
    DeliveryMode,
    check_block,
    encode_block,
)
from tocsin.model.columns import bytes_column, raw_values, value_column
from tocsin.model.destination import Kind
from tocsin.model.errors import MessageFormatError, NewerFormat
from tocsin.model.limits import (
    BATCH_COLUMNS_MAX,
    BATCH_MESSAGES_MAX,
    BLOCK_COLUMNS_MAX,
    PROPERTY_NAME_BYTES_MAX,
    SEQUENCE_MAX,
)
from tocsin.model.values import Type

# ---- round trips


@given(rows())
def test_a_block_says_what_was_put_in(made: Rows) -> None:
    encoded = made.encode()
    block = check_block(encoded)
    assert block.header() == made.header
    assert bytes(block.data) == encoded
    found = {(each.column, each.type, each.name): raw_values(each, block.count) for each in block.columns()}
    bodies = found.pop((Column.BODY, Type.BYTES, ""), None)
    if made.header.body_kind is BodyKind.TEXT:
        assert bodies == [body.encode() for body in made.bodies]
    else:
        assert bodies == (None if made.header.body_kind is BodyKind.EMPTY else made.bodies)
    assert found == made.columns


@given(rows())
def test_parts_of_columns_begin_at_multiples_of_eight_in_order(made: Rows) -> None:
    block = Block(made.encode())
    positions = [place for entry in block.directory() for place in entry[3:6] if place]
    assert positions == sorted(positions)
    assert all(place % 8 == 0 for place in positions)
    assert block.length % 8 == 0 or not positions


@pytest.mark.parametrize("count", [1, BATCH_MESSAGES_MAX])
def test_smallest_and_largest_batches(count: int) -> None:
    for bodies in ([b""] * count, [b"x" * 100] * count):
        header = BatchHeader("orders", Kind.QUEUE, count, body_kind=BodyKind.BYTES)
        block = check_block(encode_block(header, [bytes_column(Column.BODY, bodies)]))
        assert raw_values(block.columns()[0], count) == bodies


def test_any_kind_of_buffer_is_read() -> None:
    encoded = simple()
    for data in (encoded, bytearray(encoded), memoryview(encoded), memoryview(b"xx" + encoded + b"yy")[2:-2]):
        block = check_block(data)
        assert raw_values(block.columns()[0], block.count) == [b"one", b"two"]


def test_columns_are_found_by_name() -> None:
    columns = [
        value_column(Column.KEY, Type.BYTES, "", [b"k", None]),
        value_column(Column.PROPERTY, Type.STRING, "size", ["large", None]),
        value_column(Column.PROPERTY, Type.INT, "size", [None, 7]),
        value_column(Column.PROPERTY, Type.INT, "other", [1, 2]),
    ]
    block = check_block(encode_block(BatchHeader("orders", Kind.QUEUE, 2), columns))
    assert block.has_column(Column.KEY) and not block.has_column(Column.BODY)
    assert block.column(Column.BODY) is None
    assert [each.type for each in block.properties("size")] == [Type.STRING, Type.INT]
    assert [each.name for each in block.properties()] == ["size", "size", "other"]
    assert block.properties("absent") == []


def test_extensions_of_the_header_are_skipped() -> None:
    encoded = simple()
    header_length = HEADER.size + len("orders")
    longer = encoded[:header_length] + b"12345678" + encoded[header_length:]
    block = check_block(shift_parts(patch(longer, length=len(longer), header_length=header_length + 8), 8))
    assert block.destination == "orders"
    assert raw_values(block.columns()[0], 2) == [b"one", b"two"]


def test_servers_have_room_for_their_own_columns() -> None:
    columns = [value_column(Column.PROPERTY, Type.INT, f"p{n}", [n]) for n in range(BLOCK_COLUMNS_MAX + 1)]
    header = BatchHeader("orders", Kind.QUEUE, 1)
    assert len(check_block(encode_block(header, columns[:BATCH_COLUMNS_MAX])).columns()) == BATCH_COLUMNS_MAX
    with pytest.raises(MessageFormatError, match="columns"):
        check_block(encode_block(header, columns[: BATCH_COLUMNS_MAX + 1]))
    assert len(Block(encode_block(header, columns[:BLOCK_COLUMNS_MAX])).columns()) == BLOCK_COLUMNS_MAX
    with pytest.raises(MessageFormatError, match="columns"):
        Block(encode_block(header, columns)).directory()


# ---- what is refused


def simple(**fields: Any) -> bytes:
    """Two bodies, and a property that the second message lacks."""
    header = BatchHeader("orders", Kind.QUEUE, 2, body_kind=BodyKind.BYTES, first_sequence=5, unconfirmed_from=5)
    columns = [
        bytes_column(Column.BODY, [b"one", b"two"]),
        value_column(Column.PROPERTY, Type.STRING, "region", ["EU", None]),
    ]
    return encode_block(replace(header, **fields), columns)


def shift_parts(encoded: bytes, by: int) -> bytes:
    for index, entry in enumerate(Block(encoded).directory()):
        moved = {
            name: by for name, place in zip(("validity_by", "offsets_by", "data_by"), entry[3:6], strict=True) if place
        }
        encoded = patch_entry(encoded, index, **moved)
    return encoded


def test_the_tools_of_these_tests_change_nothing_by_themselves() -> None:
    assert patch(simple()) == simple()
    assert patch_entry(simple(), 1) == simple()
    check_block(simple())


@pytest.mark.parametrize("size", [0, 1, 8, HEADER.size - 1])
def test_shorter_than_a_header(size: int) -> None:
    with pytest.raises(MessageFormatError, match="shorter than its header"):
        check_block(simple()[:size])


def test_every_byte_is_under_the_checksum() -> None:
    encoded = simple()
    for position in range(8, len(encoded)):
        broken = bytearray(encoded)
        broken[position] ^= 0x10
        with pytest.raises(MessageFormatError):
            check_block(bytes(broken))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"magic": b"TB"}, "magic"),
        ({"version": 0}, "never was"),
        ({"length": 8}, "lengths"),
        ({"header_length": HEADER.size}, "lengths"),
        ({"header_length": 65_535}, "lengths"),
        ({"destination_length": 7}, "lengths"),
        ({"count": 0}, "0 messages"),
        ({"count": BATCH_MESSAGES_MAX + 1}, "messages"),
        ({"count": 2**32 - 1}, "messages"),
        ({"count": 1}, "offsets|length"),
        ({"count": 3}, "offsets|length|outside"),
        ({"flags": 4}, "flags"),
        ({"body_kind": 6}, "unknown kind"),
        ({"body_kind": 0}, "contradicts its columns"),
        ({"delivery_mode": 0}, "unknown kind"),
        ({"delivery_mode": 3}, "unknown kind"),
        ({"priority": 10}, "priority"),
        ({"codec": 1}, "codec"),
        ({"destination_kind": 0}, "unknown kind"),
        ({"columns": 3}, "column"),
        ({"columns": 1, "body_kind": 0}, "contradicts"),
        ({"columns": 65_535}, "columns"),
        ({"first_sequence": 0, "unconfirmed_from": 0}, "sequences"),
        ({"first_sequence": SEQUENCE_MAX - 1}, "sequences"),
        ({"first_sequence": 2**64 - 1}, "sequences"),
        ({"unconfirmed_from": 6}, "sequences"),
        ({"base_timestamp": -1}, "1970"),
        ({"delivery_time": -1}, "1970"),
        ({"earliest_expiry": -1}, "1970"),
    ],
)
def test_lies_in_the_header(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(MessageFormatError, match=says):
        check_block(patch(simple(), **changes))


@pytest.mark.parametrize("version", [2, 255])
def test_a_newer_version_is_told_from_damage(version: int) -> None:
    with pytest.raises(NewerFormat, match=str(version)):
        check_block(patch(simple(), version=version))


def test_the_highest_sequence_is_still_good() -> None:
    assert check_block(patch(simple(), first_sequence=SEQUENCE_MAX - 2)).first_sequence == SEQUENCE_MAX - 2


@pytest.mark.parametrize(
    ("index", "changes", "says"),
    [
        (0, {"column": 0}, "unknown or has the wrong type"),
        (0, {"column": 10}, "unknown or has the wrong type"),
        (0, {"column": Column.KEY}, "contradicts its columns"),
        (0, {"column": Column.PROPERTY}, "have names"),
        (0, {"type": Type.STRING}, "wrong type"),
        (0, {"type": Type.INT}, "wrong type"),
        (0, {"name_length": 4}, "have names|column|type|UTF-8|outside"),
        (0, {"validity": 200}, "every message"),
        (0, {"offsets": 0}, "outside"),
        (0, {"offsets_by": 1}, "askew"),
        (0, {"offsets_by": 8}, "offsets do not rise|outside"),
        (0, {"offsets": 2**32 - 8}, "outside"),
        (0, {"offsets": 8}, "outside"),
        (0, {"data_by": 4}, "askew"),
        (0, {"data": 2**32 - 8}, "outside"),
        (0, {"data_length_by": 1}, "do not rise"),
        (0, {"data_length_by": -1}, "do not rise"),
        (0, {"data_length": 2**32 - 1}, "do not rise"),
        (1, {"type": 0}, "unknown type"),
        (1, {"type": Type.CHAR}, "unknown type"),
        (1, {"type": Type.LIST}, "unknown type"),
        (1, {"type": Type.LONG}, "contradicts the number"),
        (1, {"column": Column.TYPE}, "have names"),
        (1, {"name_length": 0}, "have names"),
        (1, {"name_length": PROPERTY_NAME_BYTES_MAX + 1}, "is the most"),
        (1, {"name_length": 200}, "cut off|UTF-8|outside"),
        (1, {"validity": 8}, "outside"),
        (1, {"validity_by": -8}, "over another"),
        (1, {"offsets_by": -8}, "over another"),
        (1, {"data_by": -16}, "over another"),
    ],
)
def test_lies_in_the_directory(index: int, changes: dict[str, int], says: str) -> None:
    with pytest.raises(MessageFormatError, match=says):
        check_block(patch_entry(simple(), index, **changes))


def test_a_directory_that_is_cut_off() -> None:
    empty = encode_block(BatchHeader("orders", Kind.QUEUE, 1), [])
    assert check_block(empty).columns() == []
    with pytest.raises(MessageFormatError, match="cut off"):
        check_block(patch(empty, columns=1))
    entry = ENTRY.pack(Column.PROPERTY, Type.INT, 200, 0, 0, 0, 0) + b"name"
    longer = empty[: HEADER.size + len("orders")] + entry
    with pytest.raises(MessageFormatError, match="cut off"):
        check_block(patch(longer, columns=1, length=len(longer)))


@pytest.mark.parametrize("ends", [(1, 3, 6), (0, 7, 6), (0, 6, 3), (0, 3, 5), (0, 3, 2**32 - 1)])
def test_offsets_that_do_not_rise_to_the_length(ends: tuple[int, int, int]) -> None:
    encoded = bytearray(simple())
    struct.pack_into("<3I", encoded, Block(bytes(encoded)).directory()[0][4], *ends)
    with pytest.raises(MessageFormatError, match="do not rise"):
        check_block(seal(bytes(encoded)))


@given(
    steps=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=400),
    changed=st.none() | st.tuples(st.integers(0, 400), st.integers(0, 2**32 - 1)),
    many=st.booleans(),
)
@example(steps=[1] * 300, changed=(150, 2**32 - 1), many=True)
@example(steps=[1] * 300, changed=(150, 148), many=True)
@example(steps=[1] * 300, changed=(0, 1), many=True)
@example(steps=[0] * 300, changed=None, many=True)
@example(steps=[7] * 300, changed=None, many=True)
@example(steps=[7, 6, 8] * 100, changed=None, many=True)
@example(steps=[2**31 - 1] + [0] * 299, changed=None, many=True)
def test_many_offsets_are_compared_as_few_are(steps: list[int], changed: tuple[int, int] | None, many: bool) -> None:
    """Compared at once, as one long number, they are judged as by comparing each with the next."""
    ends = [min(end, 2**31 - 1) for end in accumulate(steps * (100 if many else 1), initial=0)]
    length = ends[-1]
    if changed is not None:
        ends[changed[0] % len(ends)] = changed[1]
    expected = ends[0] == 0 and ends[-1] == length and all(one <= other for one, other in pairwise(ends))
    assert batch._rise(memoryview(array("I", ends).tobytes()), length) is expected


def test_the_same_column_twice() -> None:
    column = value_column(Column.PROPERTY, Type.INT, "size", [1])
    with pytest.raises(MessageFormatError, match="twice"):
        check_block(encode_block(BatchHeader("orders", Kind.QUEUE, 1), [column, column]))


def test_two_columns_may_not_share_their_bytes() -> None:
    """Else 256 columns over the same megabytes would cost a reader 256 times the length of the block."""
    columns = [value_column(Column.PROPERTY, Type.BYTES, name, [b"x" * 64]) for name in "ab"]
    encoded = encode_block(BatchHeader("orders", Kind.QUEUE, 1), columns)
    first = Block(encoded).directory()[0]
    with pytest.raises(MessageFormatError, match="over another"):
        check_block(patch_entry(encoded, 1, offsets=first[4], data=first[5]))


@pytest.mark.parametrize("column", [Column.TIMESTAMP, Column.EXPIRY])
def test_times_are_in_every_row(column: Column) -> None:
    kind = Type.INT if column is Column.TIMESTAMP else Type.LONG
    check_block(encode_block(BatchHeader("orders", Kind.QUEUE, 2), [value_column(column, kind, "", [1, 2])]))
    with pytest.raises(MessageFormatError, match="every message"):
        check_block(encode_block(BatchHeader("orders", Kind.QUEUE, 2), [value_column(column, kind, "", [1, None])]))


@pytest.mark.parametrize(
    "elements", [[b"\xff", b"a"], [b"\xc3", b"\xa9"], [b"a\xf0\x9f", b"\x94\x94"], [b"\xed\xa0\x80", b""]]
)
@pytest.mark.parametrize("kind", ["property", "body"])
def test_text_is_utf8_element_by_element(elements: list[bytes], kind: str) -> None:
    made = bytes_column(Column.BODY, elements)
    header = BatchHeader("orders", Kind.QUEUE, 2, body_kind=BodyKind.TEXT)
    if kind == "property":
        header.body_kind = BodyKind.EMPTY
        made = ColumnData(Column.PROPERTY, Type.STRING, "x", made.data, made.offsets)
    with pytest.raises(MessageFormatError, match=r"UTF-8|inside a character"):
        check_block(encode_block(header, [made]))


def test_bytes_need_not_be_text() -> None:
    header = BatchHeader("orders", Kind.QUEUE, 2, body_kind=BodyKind.BYTES)
    check_block(encode_block(header, [bytes_column(Column.BODY, [b"\xff", b"\xc3"])]))


@pytest.mark.parametrize("name", ["destination", "property"])
def test_names_are_utf8(name: str) -> None:
    encoded = simple()
    place = encoded.index(b"orders" if name == "destination" else b"region")
    with pytest.raises(MessageFormatError, match="UTF-8"):
        check_block(seal(encoded[:place] + b"\xff" + encoded[place + 1 :]))


def test_a_destination_that_is_too_long() -> None:
    check_block(simple(destination="x" * 255))
    with pytest.raises(MessageFormatError, match="longer than 255"):
        check_block(simple(destination="x" * 256))


def test_enumerations_are_read_as_such() -> None:
    block = Block(simple(delivery_mode=DeliveryMode.NON_PERSISTENT, flags=FLAG_GROUPS))
    assert block.delivery_mode is DeliveryMode.NON_PERSISTENT
    assert block.body_kind is BodyKind.BYTES
    assert block.destination_kind is Kind.QUEUE
