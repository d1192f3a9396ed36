"""Fields of requests are checked where they are used."""

from __future__ import annotations

import pytest

from tocsin.message_manager.request_fields import NUMBER_MAX, number, text
from tocsin.model.errors import ProtocolError


def test_good_fields_are_what_they_are() -> None:
    fields = {"name": "x", "zero": 0, "most": NUMBER_MAX}
    assert text(fields, "name") == "x"
    assert [number(fields, name, 7) for name in ("zero", "most", "absent")] == [0, NUMBER_MAX, 7]


@pytest.mark.parametrize("value", [-1, NUMBER_MAX + 1, True, "1", 1.0, b"1"])
def test_what_is_no_number_is_named(value: object) -> None:
    with pytest.raises(ProtocolError, match="'n'"):
        number({"n": value}, "n", 0)


@pytest.mark.parametrize("value", [None, 1, b"x"])
def test_what_is_no_text_is_named(value: object) -> None:
    with pytest.raises(ProtocolError, match="'n'"):
        text({"n": value}, "n")
