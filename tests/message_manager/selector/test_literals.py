from __future__ import annotations

import struct

import pytest

from tocsin.message_manager.selector.literals import (
    LONG_MAX,
    NUMBER,
    MalformedNumber,
    read_approximate,
    read_exact,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("57", 57),
        ("57L", 57),
        ("57l", 57),
        ("0x1F", 31),
        ("0Xffl", 255),
        ("017", 15),
        ("000", 0),
        ("9223372036854775807", LONG_MAX),
        ("0x7FFFFFFFFFFFFFFF", LONG_MAX),
        ("0" * 5_000 + "7", 7),
    ],
)
def test_exact(text: str, value: int) -> None:
    found = NUMBER.fullmatch(text)
    assert found is not None
    assert found.lastgroup == "exact"
    assert read_exact(text) == value


@pytest.mark.parametrize("text", ["9223372036854775809", "0xFFFFFFFFFFFFFFFF", "9" * 8_000, "0x" + "f" * 8_000])
def test_exact_out_of_range(text: str) -> None:
    with pytest.raises(MalformedNumber, match="range of a Java long"):
        read_exact(text)


@pytest.mark.parametrize("text", ["08", "0179"])
def test_octal_digits(text: str) -> None:
    with pytest.raises(MalformedNumber, match="octal"):
        read_exact(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7.", 7.0),
        (".5", 0.5),
        ("7E3", 7000.0),
        ("57.9E2", 5790.0),
        ("1e-3", 0.001),
        ("1f", 1.0),
        ("2.5D", 2.5),
        ("7.e1d", 70.0),
        ("09.5", 9.5),
        ("0x1.8p3", 12.0),
        ("0x.8P1f", 1.0),
        ("1.1", 1.1),
        ("1.1f", struct.unpack("f", struct.pack("f", 1.1))[0]),
    ],
)
def test_approximate(text: str, value: float) -> None:
    found = NUMBER.fullmatch(text)
    assert found is not None
    assert found.lastgroup == "approximate"
    assert read_approximate(text) == value


@pytest.mark.parametrize("text", ["1e999", "1e39f", "0x1p99999", "9" * 400 + "."])
def test_approximate_out_of_range(text: str) -> None:
    with pytest.raises(MalformedNumber, match="too large"):
        read_approximate(text)
