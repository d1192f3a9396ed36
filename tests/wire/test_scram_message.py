from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.errors import ProtocolError
from tocsin.model.limits import LOGIN_MESSAGE_BYTES_MAX
from tocsin.wire.scram_message import (
    decode_base64,
    decode_message,
    escape_user,
    read_attributes,
    read_iterations,
    unescape_user,
)


@given(st.text())
def test_escaped_names_hold_no_comma_and_come_back(user: str) -> None:
    escaped = escape_user(user)
    assert "," not in escaped
    assert unescape_user(escaped) == user


@pytest.mark.parametrize("escaped", ["=", "a=", "=2c", "=3", "=41", "==3D"])
def test_other_escapes_are_refused(escaped: str) -> None:
    with pytest.raises(ProtocolError):
        unescape_user(escaped)


def test_message_is_bounded() -> None:
    assert decode_message(b"x" * LOGIN_MESSAGE_BYTES_MAX)
    with pytest.raises(ProtocolError, match="2,049"):
        decode_message(b"x" * (LOGIN_MESSAGE_BYTES_MAX + 1))


def test_attributes_must_be_the_expected_ones() -> None:
    assert read_attributes("r=a=b,s=,i=1", "rsi") == ["a=b", "", "1"]
    for text in ("", "r=1", "r=1,s=2", "s=2,r=1,i=3", "r=1,s=2,i=3,x=4", "r,s,i", "r=1,s=2,i"):
        with pytest.raises(ProtocolError, match="r, s, i"):
            read_attributes(text, "rsi")


def test_iterations_are_ascii_digits_within_bounds() -> None:
    assert read_iterations("100000") == 100_000
    for text in ("4095", "2000001", "\u0664\u0660\u0669\u0666", "4_096", " 4096", "9" * 5_000):
        with pytest.raises(ProtocolError):
            read_iterations(text)


def test_base64_is_strict_and_bounded() -> None:
    assert decode_base64("YWJj", 3, 3) == b"abc"
    for text in ("YWJ", "YW Jj", "YWJj\n", "", "YWJjZA==", "ä"):
        with pytest.raises(ProtocolError):
            decode_base64(text, 3, 3)
