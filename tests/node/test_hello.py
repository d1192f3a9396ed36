"""Nodes compare their cluster files when they meet, and find the line that differs."""

from __future__ import annotations

import pytest

from tocsin.model.errors import ProtocolError
from tocsin.node.hello import HELLO, decode_hello, encode_hello, first_difference, hello_of

TEXT = 'name = "shop"\nmtu = 1500\n\nport = 7400\n'


def test_it_arrives_as_it_was_sent() -> None:
    hello = hello_of(TEXT)
    payload = encode_hello(hello)
    assert payload.startswith(HELLO) and decode_hello(memoryview(payload)) == hello
    assert hello.digest != hello_of(TEXT + "\n").digest


@pytest.mark.parametrize("payload", [b"H", b"H" + bytes(15), b"H" + bytes(17)])
def test_other_lengths_are_no_hello(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_hello(payload)


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (TEXT.replace("1500", "9000"), "mtu = 1500"),
        (TEXT.replace("mtu = 1500\n", ""), "mtu = 1500"),
        ('name = "shop"\n', "mtu = 1500"),
        (TEXT + "profile\n", ""),
        (TEXT, ""),
    ],
)
def test_the_line_that_differs_is_found(other: str, line: str) -> None:
    assert first_difference(TEXT, hello_of(other)) == line


def test_a_very_long_file_still_fits() -> None:
    hello = hello_of("\n".join(map(str, range(50_000))))
    assert len(encode_hello(hello)) <= 64 * 1024
