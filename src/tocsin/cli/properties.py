"""`--property region=EU` and, with a type, `--property amount:int=5`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tocsin.model.errors import TocsinError
from tocsin.model.values import Byte, Double, Float, Int, Long, Short

PropertyValue = bool | int | float | str

_BOOLEANS = {"true": True, "false": False}


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise ValueError("a bool is true or false") from None


_READERS: dict[str, Callable[[str], PropertyValue]] = {
    "str": str,
    "bool": _boolean,
    "byte": Byte,
    "short": Short,
    "int": Int,
    "long": Long,
    "float": Float,
    "double": Double,
}


def read_properties(texts: Iterable[str]) -> dict[str, PropertyValue]:
    """Raises ValueError with a sentence for the first text that is not `name=value` or `name:type=value`."""
    return dict(map(_read_property, texts))


def _read_property(text: str) -> tuple[str, PropertyValue]:
    left, equals, value = text.partition("=")
    name, _, word = left.partition(":")
    if not equals or not name:
        raise ValueError(f"{text!r} is not a property; write name=value or name:int=5.")
    reader = _READERS.get(word or "str")
    if reader is None:
        raise ValueError(f"{word!r} in {text!r} is not a type; use one of {', '.join(_READERS)}.")
    try:
        return name, reader(value)
    except (ValueError, TocsinError) as error:
        raise ValueError(f"{value!r} in {text!r} is not of type {word}: {error}") from None
