from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.strategies import Rows, rows

from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, check_block
from tocsin.model.columns import raw_values
from tocsin.model.destination import Destination, Kind
from tocsin.model.editing import readdress, slice_block
from tocsin.model.limits import BATCH_COLUMNS_MAX, BATCH_MESSAGES_MAX
from tocsin.model.values import Int, Type

DEAD = Destination(Kind.QUEUE, "_DMQ")


def contents(block: Block) -> dict[tuple[int, Type, str], list[Any]]:
    return {(each.column, each.type, each.name): raw_values(each, block.count) for each in block.columns()}


def sliced(made: Rows, start: int, end: int) -> Rows:
    header = replace(made.header, count=end - start, first_sequence=made.header.first_sequence + start)
    columns = {key: elements[start:end] for key, elements in made.columns.items()}
    return Rows(header, made.bodies[start:end], columns)


@given(rows(), st.data())
def test_a_slice_of_a_block_is_the_block_of_a_slice(made: Rows, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, made.header.count - 1))
    end = data.draw(st.integers(start + 1, made.header.count))
    found = check_block(slice_block(Block(made.encode()), start, end))
    expected = sliced(made, start, end)
    assert found.header() == expected.header
    # A column that has a value in all rows of the slice may keep its bitmap, so the bytes can differ.
    assert contents(found) == contents(Block(expected.encode()))


@pytest.mark.parametrize("start", [0, 1, 7, 8, 9, 63])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 64])
def test_bitmaps_are_cut_at_any_row(start: int, length: int) -> None:
    header = BatchHeader("orders", Kind.QUEUE, 128)
    elements = [row if row % 3 and row % 7 else None for row in range(128)]
    made = Rows(header, [None] * 128, {(Column.PROPERTY, Type.INT, "x"): elements})
    found = check_block(slice_block(Block(made.encode()), start, start + length))
    assert raw_values(found.properties("x")[0], length) == elements[start : start + length]


def test_slices_of_a_largest_batch() -> None:
    bodies = [b"%d" % row for row in range(BATCH_MESSAGES_MAX)]
    header = BatchHeader("orders", Kind.QUEUE, BATCH_MESSAGES_MAX, body_kind=BodyKind.BYTES)
    block = Block(Rows(header, bodies).encode())
    for start, end in ((0, BATCH_MESSAGES_MAX), (0, 1), (BATCH_MESSAGES_MAX - 1, BATCH_MESSAGES_MAX), (4_000, 9_001)):
        found = check_block(slice_block(block, start, end))
        assert contents(found)[Column.BODY, Type.BYTES, ""] == bodies[start:end]
        assert found.first_sequence == 1 + start


def test_a_slice_of_a_slice() -> None:
    header = BatchHeader("orders", Kind.QUEUE, 10, body_kind=BodyKind.TEXT)
    block = Block(Rows(header, list("abcdéfghij")).encode())
    found = check_block(slice_block(Block(slice_block(block, 2, 9)), 1, 4))
    assert raw_values(found.columns()[0], 3) == [b"d", "é".encode(), b"f"]
    assert found.first_sequence == 4


@pytest.mark.parametrize(("start", "end"), [(0, 0), (1, 1), (2, 1), (-1, 1), (0, 4)])
def test_a_slice_lies_within_its_block(start: int, end: int) -> None:
    block = Block(Rows(BatchHeader("orders", Kind.QUEUE, 3), [None] * 3).encode())
    with pytest.raises(AssertionError):
        slice_block(block, start, end)


NOTES: dict[str, object] = {"JMS_tocsin_origin": "queue:orders", "JMS_tocsin_attempts": Int(3), "region": "none"}


@given(rows(), st.data())
def test_a_dead_message_keeps_everything_but_its_times(made: Rows, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, made.header.count - 1))
    end = data.draw(st.integers(start + 1, made.header.count))
    found = check_block(readdress(Block(made.encode()), start, end, DEAD, add=NOTES, remove=("x",)))
    expected = sliced(made, start, end)
    assert found.header() == replace(
        expected.header, destination="_DMQ", destination_kind=Kind.QUEUE, delivery_time=0, earliest_expiry=0
    )
    gone = {"x", *NOTES}
    kept = {key: each for key, each in contents(Block(expected.encode())).items() if key[2] not in gone}
    kept.pop((Column.EXPIRY, Type.LONG, ""), None)
    count = end - start
    added = {
        (Column.PROPERTY, Type.STRING, "JMS_tocsin_origin"): ["queue:orders"] * count,
        (Column.PROPERTY, Type.INT, "JMS_tocsin_attempts"): [3] * count,
        (Column.PROPERTY, Type.STRING, "region"): ["none"] * count,
    }
    assert contents(found) == kept | added


def test_notes_come_off_again() -> None:
    made = Rows(BatchHeader("orders", Kind.QUEUE, 2), [None] * 2, {(Column.PROPERTY, Type.INT, "size"): [1, None]})
    dead = Block(readdress(Block(made.encode()), 0, 2, DEAD, add=NOTES, remove=()))
    back = readdress(dead, 0, 2, Destination(Kind.QUEUE, "orders"), add={}, remove=tuple(NOTES))
    assert back == made.encode()


def test_a_message_with_the_most_columns_loses_none_when_it_dies() -> None:
    columns: dict[Any, list[Any]] = {(Column.PROPERTY, Type.INT, f"p{n}"): [n] for n in range(BATCH_COLUMNS_MAX)}
    block = check_block(Rows(BatchHeader("orders", Kind.QUEUE, 1), [None], columns).encode())
    dead = Block(readdress(block, 0, 1, DEAD, add=NOTES, remove=()))
    assert {name for _, _, name in contents(dead)} == {name for _, _, name in columns} | set(NOTES)
