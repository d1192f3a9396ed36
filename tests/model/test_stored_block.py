"""Where a block is in a record."""

from __future__ import annotations

from tocsin.model.stored_block import STORED, stored_block


def test_the_block_is_where_the_record_says() -> None:
    assert stored_block(STORED.pack(1, STORED.size, 2, 3) + b"block") == b"block"
    assert stored_block(STORED.pack(1, STORED.size + 4, 2, 3) + b"more" + b"block") == b"block"


def test_one_that_begins_behind_its_record_is_empty() -> None:
    assert stored_block(STORED.pack(1, 1_000, 2, 3) + b"block") == b""
