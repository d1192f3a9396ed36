"""Values at the edges of what a field can hold, and of what any field can hold."""

from __future__ import annotations

from random import Random
from typing import Any

from tocsin.model.values import Byte, Char, Float, Int, Short

WHOLE = (
    0, 1, 2, 3, 7, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 - 1, 2**53, 2**62, 2**63 - 1,
    -1, -2, -(2**31), -(2**63), Byte(-128), Short(32_767), Int(2**31 - 1),
)  # fmt: skip
BITS = {bits: (0, 1, 2, (1 << bits) // 2 - 1, (1 << bits) // 2, (1 << bits) - 2, (1 << bits) - 1) for bits in
        (8, 16, 32, 64)}  # fmt: skip
REAL = (0.0, -0.0, 1.5, -1.0, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"), Float(3.4e38))
TEXT = (
    "", "a", " ", "\0", "%", "größe", "日本", "\u202e", "e\u0301", "\x1b[2J", Char("\ud800"), Char("\udfff"),
    Char("\0"), Char("\u202e"), "x" * 255, "x" * 256, "é" * 128, "x" * 4_096, "x" * 9_000, "x" * 65_534, "x" * 65_535,
    "y" * 70_000,
)  # fmt: skip
NAMES = ("queue:one", "queue:two", "topic:one", "topic:two", "topic:kept")
"""Destinations that hostile clients share; the honest one has its own."""
ADDRESS = (
    *NAMES, "queue:", "topic:", ":", "queue", "heap:one", "queue:_DMQ", "queue:_DMQ.one", "topic:_x", "queue:a b",
    "queue:*", "queue:" + "x" * 255, "queue:" + "x" * 256, "queue:\u202e", "queue:e\u0301", "queue:_temporary.x",
    "topic:one\0",
)  # fmt: skip
RAW = (b"", b"\0", b"\0" * 16, b"\xff" * 16, b"x" * 15, b"x" * 17, b"\0" * 32, b"z" * 70_000)
LISTS: tuple[list[Any], ...] = (
    [], [0], [0, 1], [1, 0], [0, 2**63 - 1], [2**63 - 1, 2**63 - 1], [-1, 1], [0, 1, 0, 1], [5, 9, 1, 3], [None], ["a"],
    [[]], [{}], [1.5, 2.5], [True, False], list(range(2_000)), [0, 1] * 5_000, [[[[[[[0]]]]]]],
)  # fmt: skip
MAPS: tuple[dict[str, Any], ...] = (
    {}, {"": None}, {"at": "earliest"}, {"offset": 2**63 - 1}, {"offset": -1}, {"time_ms": -(2**63)}, {"a": {"b": {}}},
    {"destination": "queue:one", "stage": b"s" * 16}, {f"k{number}": number for number in range(300)},
)  # fmt: skip
SELECTORS = (
    "", "TRUE", "n = 1", "n = ", "n LIKE 'a%b_c%'", "n BETWEEN 1 AND 2", "((((n))))", "'" * 3, "n IN ('a','b')",
    "n = 9223372036854775808", "n / 0 > 1", "NOT n IS NULL", " OR ".join(["n LIKE '%a%'"] * 40),
    "(" * 70 + "n" + ")" * 70,
    "n = 1" + " AND n = 1" * 300, "größe = 'ß'",
)  # fmt: skip


def anything(chance: Random) -> Any:
    """Of any type."""
    return chance.choice(chance.choice((WHOLE, REAL, TEXT, ADDRESS, RAW, LISTS, MAPS, (None, True, False))))


def of_type(kind: type, chance: Random) -> Any:
    """Of this type, at an edge; now and then of another."""
    if chance.random() < 0.08:
        return anything(chance)
    pools: dict[type, tuple[Any, ...]] = {
        int: WHOLE, float: REAL, str: TEXT, bytes: RAW, list: LISTS, dict: MAPS, bool: (True, False),
    }  # fmt: skip
    return chance.choice(pools[kind])


def damaged(data: bytes, chance: Random) -> bytes:
    """The same bytes, but for some: turned, cut out, doubled or overwritten with an extreme."""
    raw = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        if not raw:
            return bytes(raw)
        at = chance.randrange(len(raw))
        way = chance.randrange(6)
        if way == 0:
            raw[at] ^= 1 << chance.randrange(8)
        elif way == 1:
            del raw[at : at + chance.choice((1, 2, 4, 8, len(raw)))]
        elif way == 2:
            raw[at:at] = raw[at : at + chance.choice((1, 4, 16))]
        else:
            size = chance.choice((1, 2, 4, 8))
            raw[at : at + size] = chance.choice(BITS[8 * size]).to_bytes(size, "little")
    return bytes(raw)
