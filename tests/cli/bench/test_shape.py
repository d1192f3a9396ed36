"""Shapes of clusters as they are written."""

from __future__ import annotations

import pytest

from tocsin.cli.bench.shape import LOCAL, Shape, parse_shape


def test_a_shape_is_read_as_it_is_written() -> None:
    assert parse_shape("1x2") == LOCAL
    assert parse_shape("16x9") == Shape(16, 9)
    assert str(parse_shape("2x3")) == "2x3"


@pytest.mark.parametrize("text", ["", "x", "2", "1x", "x2", "0x2", "1x0", "17x1", "1x10", "1x2x3", "-1x2", "1X2"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as 1x2"):
        parse_shape(text)
