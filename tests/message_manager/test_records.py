from __future__ import annotations

from collections.abc import Callable

import pytest

from tocsin.message_manager.records import (
    DELAYED,
    RangesRecord,
    ranges_per_record,
    read_due,
    read_left_out,
    read_map,
    read_ranges,
    read_reserve,
    read_stored,
    write_due,
    write_map,
    write_move,
    write_publish,
    write_ranges,
    write_reserve,
)  # fmt: skip
from tocsin.model.errors import JournalDamaged, MessageFormatError
from tocsin.model.stored_block import stored_block
from tocsin.model.values import Bytes, Char


def joined(parts: list[Bytes] | list[bytes]) -> bytes:
    return b"".join(parts)


def test_a_published_block_comes_back() -> None:
    payload = joined(write_publish(7, 100, 1234, b"the block"))
    stored = read_stored(payload)
    assert (stored.destination, stored.first_offset, stored.append_time) == (7, 100, 1234)
    assert (bytes(stored.block), bytes(stored_block(payload)), read_left_out(stored)) == (
        b"the block",
        b"the block",
        (),
    )


def test_a_delayed_block_names_the_views_that_leave_it_out() -> None:
    payload = joined(write_publish(7, DELAYED, 1234, b"the block", (3, 9)))
    stored = read_stored(payload)
    assert (stored.first_offset, read_left_out(stored)) == (DELAYED, (3, 9))
    assert bytes(stored_block(payload)) == b"the block"


def test_a_move_names_its_source() -> None:
    source = RangesRecord(1, 2, [(5, 8), (10, 11)])
    payload = joined(write_move(7, 100, 1234, source, b"the block"))
    stored = read_stored(payload)
    assert read_ranges(stored.extra) == source
    assert bytes(stored_block(payload)) == b"the block"


def test_the_others_come_back_too() -> None:
    assert read_ranges(joined(write_ranges(1, 2, []))) == RangesRecord(1, 2, [])
    assert read_due(joined(write_due(1, 2, 3, 4))) == (1, 2, 3, 4)
    assert read_reserve(joined(write_reserve(1, 2, 3))) == (1, 2, 3)
    assert read_map(joined(write_map({"id": 1, "name": "a"}))) == {"id": 1, "name": "a"}


def test_ranges_fit_the_record() -> None:
    assert ranges_per_record(12 + 16 * 10) == 10
    assert ranges_per_record(1) == 1
    assert ranges_per_record(1 << 30) == 4096


def test_views_that_are_cut_off_are_damage() -> None:
    payload = joined(write_publish(1, 2, 3, b"", (1,)))
    with pytest.raises(JournalDamaged):
        read_left_out(read_stored(payload[:4] + b"\x1b\0\0\0" + bytes(20)))


@pytest.mark.parametrize(
    ("read", "payload"),
    [
        (read_stored, b"short"),
        (read_stored, joined(write_publish(1, 2, 3, b""))[:4] + b"\xff\xff\0\0" + bytes(16)),
        (read_ranges, joined(write_ranges(1, 2, [(1, 2)]))[:-1]),
        (read_due, b""),
        (read_reserve, b"1234567"),
    ],
)
def test_a_damaged_record_says_so(read: Callable[[bytes], object], payload: bytes) -> None:
    with pytest.raises(JournalDamaged):
        read(payload)


@pytest.mark.parametrize("name", ["\ud800", Char("\udfff")], ids=["text", "char"])
def test_what_no_snapshot_could_hold_is_in_no_record(name: str) -> None:
    with pytest.raises(MessageFormatError):
        write_map({"app": name})
