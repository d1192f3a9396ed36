"""What must not be seen: a type whose every text form hides its value."""

from __future__ import annotations

import hmac
from typing import Final

HIDDEN: Final = "***"


class Secret:
    """A password or a token. Only `reveal` gives it out; `repr`, `str` and formatting show three asterisks."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self._value), _bytes(other._value))

    def __hash__(self) -> int:
        return hash(self._value)


def secret(value: str | Secret | None) -> Secret | None:
    """Hides what somebody gave as it is."""
    return Secret(value) if isinstance(value, str) else value


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")
