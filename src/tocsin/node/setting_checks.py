"""What a setting may hold: each check takes a raw value and returns the clean one.

A ValueError says what was expected, as the end of a sentence: "... must be a whole number from 1 to 9".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tocsin.model.limits import SETTING_NAME_CHARACTERS_MAX

Check = Callable[[object], object]

_NAME_PUNCTUATION = str.maketrans("", "", ".-_")


def whole_number(least: int, most: int) -> Check:
    def check(value: object) -> int:
        # bool is an int to Python, but `port = true` is a mistake.
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number from {least:,} to {most:,}")
        return value

    return check


def seconds(least: float, most: float) -> Check:
    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"a number of seconds from {least:g} to {most:g}")
        return float(value)

    return check


def one_of(*choices: str) -> Check:
    def check(value: object) -> object:
        if value not in choices:
            raise ValueError(" or ".join(f'"{choice}"' for choice in choices))
        return value

    return check


def text(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError("a text that is not empty")
    return value


def name(value: object) -> str:
    if (
        not isinstance(value, str)
        or not value.isascii()
        or len(value) > SETTING_NAME_CHARACTERS_MAX
        or not value.translate(_NAME_PUNCTUATION).isalnum()
    ):
        raise ValueError(f"1 to {SETTING_NAME_CHARACTERS_MAX} letters, digits, '.', '-' or '_'")
    return value


def path(value: object) -> Path:
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("a path")
    return Path(value).expanduser()


def optional_path(value: object) -> Path | None:
    return None if value is None else path(value)


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def list_of(check: Check) -> Check:
    def check_all(value: object) -> tuple[object, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError("a list")
        return tuple(check(each) for each in value)

    return check_all


def host_and_port(value: object) -> str:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise ValueError("host:port")
    return f"{host}:{port}"
