"""The check of blocks and records is zlib's, whoever computes it."""

from __future__ import annotations

import sys
import zlib
from importlib import reload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model import checksum


@given(st.binary(max_size=3_000), st.integers(0, 2**32 - 1), st.integers(0, 7))
def test_it_is_that_of_zlib(data: bytes, begin: int, skip: int) -> None:
    view = memoryview(data)[skip:]
    assert checksum.crc32(view, begin) == zlib.crc32(view, begin)
    assert checksum.crc32(bytearray(view)) == zlib.crc32(view)


def test_without_zlib_ng_the_standard_library_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "zlib_ng.zlib_ng", None)
        assert reload(checksum).crc32 is zlib.crc32
    reload(checksum)
