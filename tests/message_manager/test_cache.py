from __future__ import annotations

from tocsin.message_manager.cache import BlockCache
from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, encode_block
from tocsin.model.columns import bytes_column
from tocsin.model.destination import Kind


def block(size: int = 10) -> Block:
    header = BatchHeader("orders", Kind.QUEUE, 1, body_kind=BodyKind.BYTES)
    return Block(encode_block(header, [bytes_column(Column.BODY, [b"x" * size])]))


def test_the_oldest_blocks_leave_first_and_the_newest_always_stays() -> None:
    one = block()
    cache = BlockCache(3 * (one.length + 640))
    for lsn in range(1, 6):
        cache.put(lsn, block())
    assert [lsn for lsn in range(1, 6) if cache.get(lsn) is not None] == [3, 4, 5]
    tiny = BlockCache(1)
    tiny.put(1, one)
    assert tiny.get(1) is one


def test_bytes_are_counted_once_and_given_back() -> None:
    cache = BlockCache(1 << 20)
    cache.put(1, block(100))
    before = cache.bytes
    cache.put(1, block(100))
    assert cache.bytes == before > 740
    cache.drop(1)
    cache.drop(1)
    assert cache.bytes == 0
    assert cache.get(1) is None
