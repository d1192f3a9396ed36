from __future__ import annotations

from tocsin.cluster.commands import OpenConsumer
from tocsin.message_manager.budget import Step
from tocsin.message_manager.consumer import Consumer
from tocsin.message_manager.selector import compile_selector
from tocsin.model.batch import BatchHeader, Block, Column, encode_block
from tocsin.model.columns import value_column
from tocsin.model.destination import Kind, parse_destination
from tocsin.model.ranges import RangeSet
from tocsin.model.values import Type


def consumer(messages: int = 10, size: int = 1000, selector: str | None = None) -> Consumer:
    opened = OpenConsumer(
        1, b"s" * 16, 1, parse_destination("queue:orders"), b"c" * 16, None, messages=messages, bytes=size
    )
    return Consumer("here", opened, compile_selector(selector))


def test_credit_is_what_is_allowed_and_not_sent() -> None:
    it = consumer()
    assert it.credit == 10
    it.sent(4, 100)
    assert it.credit == 6
    it.sent(6, 100)
    assert it.credit == 0


def test_without_bytes_there_is_no_credit_and_a_paused_one_has_none() -> None:
    it = consumer()
    it.sent(1, 1000)
    assert it.credit == 0
    other = consumer()
    other.paused = True
    assert other.credit == 0


def test_the_selector_is_asked_once_for_a_row() -> None:
    it, step = consumer(selector="n > 1"), Step(30.0)
    column = value_column(Column.PROPERTY, Type.INT, "n", [1, 2, 3])
    block = Block(encode_block(BatchHeader("orders", Kind.QUEUE, 3), [column]))
    first = it.matches(7, 100, block, step)
    assert list(first) == [(101, 103)]
    assert it.matches(7, 100, block, step) is first
    assert it.matches(8, 200, block, step) is not first


def test_reserved_offsets_are_kept_as_ranges_and_counted() -> None:
    it = consumer()
    for offset in (1, 2, 3, 7):
        it.reserve(offset)
    assert (list(it.reserved), it.reserved_messages) == ([(1, 4), (7, 8)], 4)
    assert it.take_reserved(RangeSet([(2, 8)])) == [(2, 4), (7, 8)]
    assert (list(it.reserved), it.reserved_messages) == ([(1, 2)], 1)
    assert it.take_reserved(RangeSet([(100, 200)])) == []
