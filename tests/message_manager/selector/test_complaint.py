from __future__ import annotations

from tocsin.message_manager.selector.complaint import invalid, quoted


def test_the_caret_stands_under_the_place() -> None:
    assert str(invalid("region =", 8, "expected a value after '='")) == (
        "Invalid selector at position 8: expected a value after '='.\n  region =\n          ^"
    )


def test_a_long_text_is_shown_around_the_place() -> None:
    lines = str(invalid("a" * 500 + "#" + "b" * 500, 500, "wrong")).splitlines()
    assert lines[0] == "Invalid selector at position 500: wrong."
    assert len(lines[1]) < 80
    assert lines[1][lines[2].index("^")] == "#"


def test_line_ends_and_what_can_not_be_sent_are_blanked() -> None:
    message = str(invalid("a\n\ud800 #", 4, "wrong"))
    message.encode()
    assert message.splitlines()[1:] == ["  a   #", "      ^"]


def test_quotes_are_short_and_printable() -> None:
    assert quoted("a\nb") == "'a b'"
    assert len(quoted("x" * 100)) < 30
