from __future__ import annotations

import pytest

from tocsin.model.visible import visible, visible_bytes


@pytest.mark.parametrize("text", ["", "plain", "two\nlines\tand a tab", "für 注文 שלום 🙂", "back\\slash"])
def test_what_is_harmless_stays_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert visible_bytes(text.encode()) == text.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1b[2J", r"\x1b[2J"),
        ("safe\revil", r"safe\x0devil"),
        ("\x9b31m", r"\x9b31m"),
        ("\x00\x7f\x85", r"\x00\x7f\x85"),
        ("a\u202eb\u2066c\u200f", r"a\u202eb\u2066c\u200f"),
        ("a\u00adb\u200bc\u200d\u2060\ufeff", r"a\xadb\u200bc\u200d\u2060\ufeff"),
        ("\U000e0041", r"\U000e0041"),
        ("\u2028\ud800", r"\u2028\ud800"),
    ],
)
def test_what_steers_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_bytes_that_are_no_text_are_written_out() -> None:
    assert visible_bytes(b"\xff\x1b[0m\xc2\x9b") == rb"\xff\x1b[0m\x9b"
