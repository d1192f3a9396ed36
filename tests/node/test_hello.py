from __future__ import annotations

import pytest

from tocsin.model.errors import ProtocolError
from tocsin.node.hello import decode_hello, encode_hello


def test_a_digest_arrives_as_it_was_sent() -> None:
    assert decode_hello(encode_hello("0123456789abcdef" * 2)) == "0123456789abcdef" * 2


@pytest.mark.parametrize("payload", [b"H", b"H" + bytes(15), b"H" + bytes(17)])
def test_another_length_is_no_hello(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_hello(payload)
