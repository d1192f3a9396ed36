from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.errors import AuthenticationFailed
from tocsin.wire.saslprep import saslprep


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),  # RFC 4013 section 3, examples 1 to 5
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),
    ],
)
def test_examples(text: str, prepared: str) -> None:
    assert saslprep("user name", text) == prepared


@pytest.mark.parametrize(
    "text",
    [
        "\u0007",  # RFC 4013 section 3, examples 6 and 7
        "\u0627\u0031",
        "\u0627x\u0628",
        "\ue000",
        "\ufdd0",
        "\ud800",
        "\ufffd",
        "\u202e",
        "\U000e0041",
        "\u0221",  # unassigned in Unicode 3.2
    ],
)
def test_prohibited_text_is_refused(text: str) -> None:
    with pytest.raises(AuthenticationFailed, match="password"):
        saslprep("password", text)


def test_error_does_not_show_the_text() -> None:
    with pytest.raises(AuthenticationFailed) as refusal:
        saslprep("password", "se\u0007cret")
    assert "se" + "cret" not in str(refusal.value)
    assert "0007" not in str(refusal.value)


@given(st.text(max_size=20))
def test_preparing_twice_changes_nothing(text: str) -> None:
    try:
        prepared = saslprep("user name", text)
    except AuthenticationFailed:
        return
    assert saslprep("user name", prepared) == prepared
