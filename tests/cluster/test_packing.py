"""What was packed comes back; whatever else comes is refused before anything is made of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.packing import Packer, Unpacker
from tocsin.model.errors import ProtocolError


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=40), st.booleans())
def test_round_trip(small: int, large: int, data: bytes, flag: bool) -> None:
    packer = Packer()
    packer.u16(small)
    packer.u64(large)
    packer.sized((data[:3], data[3:]))
    packer.u8(flag)
    packer.f64(1.5)
    packer.fixed(b"end")
    unpacker = Unpacker(packer.joined())
    assert (unpacker.u16(), unpacker.u64(), unpacker.sized(40), unpacker.flag()) == (small, large, data, flag)
    assert (unpacker.f64(), unpacker.fixed(3)) == (1.5, b"end")
    unpacker.end()


def test_a_length_over_its_bound_is_refused_even_when_the_bytes_are_there() -> None:
    packer = Packer()
    packer.sized((bytes(100),))
    with pytest.raises(ProtocolError, match="100 bytes where 99"):
        Unpacker(packer.joined()).sized(99)


def test_a_count_over_its_bound() -> None:
    packer = Packer()
    packer.u16(7)
    with pytest.raises(ProtocolError, match="7 items where at most 6"):
        Unpacker(packer.joined()).count(6)


@pytest.mark.parametrize("size", range(8))
def test_a_field_that_is_cut_off(size: int) -> None:
    with pytest.raises(ProtocolError, match="middle of a field"):
        Unpacker(bytes(size)).u64()


def test_bytes_that_nobody_reads() -> None:
    unpacker = Unpacker(b"12345")
    unpacker.u16()
    with pytest.raises(ProtocolError, match="3 bytes after its end"):
        unpacker.end()


def test_a_flag_is_0_or_1() -> None:
    with pytest.raises(ProtocolError, match="flag 2"):
        Unpacker(b"\x02").flag()
