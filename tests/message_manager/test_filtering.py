from __future__ import annotations

import pytest

from tocsin.message_manager.filtering import BlockColumns, expired, groups_of, matching
from tocsin.message_manager.selector import Same, compile_selector
from tocsin.model.batch import FLAG_NO_MESSAGE_ID, BatchHeader, Block, Column, ColumnData, DeliveryMode, encode_block
from tocsin.model.columns import value_column
from tocsin.model.destination import Kind
from tocsin.model.values import Type


def block(*columns: ColumnData, count: int = 3, **header: object) -> Block:
    fields = {"base_timestamp": 1000, "priority": 7, "first_sequence": 5, "producer_id": b"p" * 16} | header
    return Block(encode_block(BatchHeader("orders", Kind.QUEUE, count, **fields), list(columns)))  # type: ignore[arg-type]


def test_headers_that_all_messages_share_are_one_value() -> None:
    columns = BlockColumns(block())
    assert columns.column("JMSPriority") == Same(7)
    assert columns.column("JMSDeliveryMode") == Same("PERSISTENT")
    assert columns.column("JMSTimestamp") == Same(1000)
    volatile = BlockColumns(block(delivery_mode=DeliveryMode.NON_PERSISTENT))
    assert volatile.column("JMSDeliveryMode") == Same("NON_PERSISTENT")


def test_headers_that_differ_are_columns() -> None:
    deltas = value_column(Column.TIMESTAMP, Type.INT, "", [0, 5, 9])
    ids = value_column(Column.CORRELATION_ID, Type.STRING, "", ["a", None, "c"])
    columns = BlockColumns(block(deltas, ids))
    assert columns.column("JMSTimestamp") == [1000, 1005, 1009]
    assert columns.column("JMSCorrelationID") == ["a", None, "c"]
    assert columns.column("JMSType") is None


def test_message_ids_are_computed_unless_they_are_switched_off() -> None:
    found = BlockColumns(block()).column("JMSMessageID")
    assert isinstance(found, list) and len(set(found)) == 3 and str(found[0]).startswith("ID:")
    assert BlockColumns(block(flags=FLAG_NO_MESSAGE_ID)).column("JMSMessageID") is None


def test_a_property_of_several_types_is_one_column() -> None:
    texts = value_column(Column.PROPERTY, Type.STRING, "size", ["big", None, None])
    numbers = value_column(Column.PROPERTY, Type.INT, "size", [None, 7, None])
    assert BlockColumns(block(texts, numbers)).column("size") == ["big", 7, None]
    assert BlockColumns(block()).column("size") is None


def test_a_selector_gives_ranges_of_messages() -> None:
    numbers = value_column(Column.PROPERTY, Type.INT, "n", [1, 5, 6])
    selector = compile_selector("n > 4")
    assert selector is not None
    assert matching(selector, block(numbers)) == [(1, 3)]


@pytest.mark.parametrize(
    ("expiries", "now", "gone", "earliest"),
    [
        ([0, 0, 0], 100, [], 0),
        ([50, 100, 101], 100, [(0, 2)], 101),
        ([50, 0, 60], 100, [(0, 1), (2, 3)], 0),
        ([200, 150, 0], 100, [], 150),
    ],
)
def test_expired_messages_and_the_next_to_expire(
    expiries: list[int], now: int, gone: list[tuple[int, int]], earliest: int
) -> None:
    column = value_column(Column.EXPIRY, Type.LONG, "", expiries)
    assert expired(block(column), now) == (gone, earliest)


def test_a_block_without_expiries_or_groups_has_none() -> None:
    assert expired(block(), 1 << 60) == ([], 0)
    assert groups_of(block()) == [None, None, None]
    assert groups_of(block(value_column(Column.GROUP_ID, Type.STRING, "", ["g", None, "h"]))) == ["g", None, "h"]
