"""Payloads wait for their ORDER, within bounds."""

from __future__ import annotations

from tocsin.replication.data_pool import DataPool, digest_of
from tocsin.replication.messages import Reference


def name(number: int, data: bytes = b"x") -> Reference:
    return Reference(bytes(16), number, digest_of(data))


def test_found_under_its_content_only() -> None:
    pool = DataPool()
    pool.put(name(1, b"a"), b"a")
    assert pool.get(name(1, b"a")) == b"a"
    assert pool.get(name(1, b"b")) is None
    pool.drop(name(1, b"a"))
    pool.drop(name(1, b"a"))
    assert (pool.get(name(1, b"a")), len(pool)) == (None, 0)


def test_the_oldest_go_when_there_are_too_many() -> None:
    pool = DataPool(entries_max=3)
    for number in range(5):
        pool.put(name(number), b"x")
    assert [pool.get(name(number)) for number in range(5)] == [None, None, b"x", b"x", b"x"]


def test_the_oldest_go_when_they_are_too_large() -> None:
    pool = DataPool(bytes_max=10)
    pool.put(name(1), bytes(6))
    pool.put(name(1), bytes(6))
    assert len(pool) == 1, "the same one again takes no more room"
    pool.put(name(2), bytes(6))
    assert pool.get(name(1)) is None
    pool.put(name(3), bytes(11))
    assert len(pool) == 0
