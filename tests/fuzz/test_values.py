"""Encoded values with damage: refused, or read as some other value; never more than their length in memory."""

from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.model.strategies import values

from tocsin.model.errors import MessageFormatError
from tocsin.model.values import Type, decode_value, encode_value


def judge(raw: bytes) -> bool:
    try:
        value = decode_value(raw)
    except MessageFormatError as error:
        assert str(error).endswith(".")
        return False
    # What can be read can be written, and means the same.
    assert encode_value(decode_value(encode_value(value))) == encode_value(value)
    return True


@given(st.binary(max_size=200))
def test_garbage(raw: bytes) -> None:
    judge(raw)
    judge(b"\x0b\x04\x00\x00\x00" + raw)


@given(values, st.data())
def test_generated_values_with_one_byte_changed(value: Any, data: st.DataObject) -> None:
    raw = bytearray(encode_value(value))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    judge(bytes(raw))


def test_random_damage() -> None:
    chance = random.Random(1977)
    fields = {"id": 7, "name": "größe", "list": [None, True, 1.5, b"\x00"], "map": {"a": [], "b": {"c": "d"}}}
    base = encode_value(fields)
    outcomes = set()
    for _ in range(15_000):
        raw = bytearray(base)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(raw))
            raw[place : place + chance.choice((1, 1, 4))] = chance.randbytes(chance.choice((1, 1, 4)))
        outcomes.add(judge(bytes(raw)))
    assert outcomes == {True, False}


def test_declared_lengths_allocate_nothing() -> None:
    huge = 2**32 - 1
    lies = [struct.pack("<BI", kind, huge) + bytes(64) for kind in (Type.STRING, Type.BYTES, Type.LIST, Type.MAP)] + [
        struct.pack("<BI", Type.LIST, huge) * 8 + bytes(64)
    ]
    tracemalloc.start()
    try:
        for raw in lies:
            assert not judge(raw)
        assert tracemalloc.get_traced_memory()[1] < 256 * 1024
    finally:
        tracemalloc.stop()
