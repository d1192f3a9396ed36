from __future__ import annotations

import pytest

from tocsin.model.errors import InvalidClientId, InvalidDestination
from tocsin.model.spelling import check_spelling


@pytest.mark.parametrize("name", ["orders", "Bestellungen-für-Köln", "注文", "שלום"])
def test_names_in_nfc_are_left_as_they_are(name: str) -> None:
    assert check_spelling(name, "name", InvalidDestination) == name


@pytest.mark.parametrize("name", ["fu\u0308r", "\u212bngstrom", "\u1100\u1161"])
def test_a_name_that_is_not_in_nfc_is_refused_and_the_right_one_told(name: str) -> None:
    with pytest.raises(InvalidClientId, match=r"NFC.*write '"):
        check_spelling(name, "client id", InvalidClientId)


@pytest.mark.parametrize("mark", "\u061c\u200e\u200f\u202a\u202e\u2066\u2069")
def test_a_name_that_turns_text_around_is_refused(mark: str) -> None:
    with pytest.raises(InvalidDestination, match="direction of text") as caught:
        check_spelling(f"exe.{mark}txt", "name", InvalidDestination)
    assert mark not in str(caught.value)


@pytest.mark.parametrize("mark", "\u00ad\u200b\u200c\u200d\u2060\ufeff\U000e0041\U000e007f")
def test_a_name_with_a_character_that_cannot_be_seen_is_refused(mark: str) -> None:
    with pytest.raises(InvalidDestination, match="cannot be seen") as caught:
        check_spelling(f"ord{mark}ers", "name", InvalidDestination)
    assert mark not in str(caught.value)
