from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.node.setting_checks import name, one_of, optional_path, path, seconds, text, whole_number


def test_numbers_keep_their_bounds() -> None:
    assert whole_number(1, 9)(9) == 9
    assert seconds(0, 5)(5) == 5.0
    assert isinstance(seconds(0, 5)(5), float)
    with pytest.raises(ValueError, match="a whole number from 1 to 9,000"):
        whole_number(1, 9_000)(0)
    with pytest.raises(ValueError, match=r"a number of seconds from 0\.5 to 5"):
        seconds(0.5, 5)(0.4)


def test_choices_are_listed() -> None:
    assert one_of("a", "b")("b") == "b"
    with pytest.raises(ValueError, match='"a" or "b"'):
        one_of("a", "b")("c")


@pytest.mark.parametrize("good", ["a", "node-1", "eu.west_2", "x" * 64])
def test_names(good: str) -> None:
    assert name(good) == good


@pytest.mark.parametrize("bad", ["", "-", "a b", "a/b", "ä", "x" * 65, None, 1])
def test_other_names_are_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="1 to 64 letters"):
        name(bad)


def test_text_is_printable_and_not_empty() -> None:
    assert text("host") == "host"
    for bad in ("", "a\nb", None):
        with pytest.raises(ValueError, match="not empty"):
            text(bad)


def test_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert path("~/data") == Path("/somewhere/data")
    assert path(Path("data")) == Path("data")
    assert optional_path(None) is None
    with pytest.raises(ValueError, match="a path"):
        path(None)
