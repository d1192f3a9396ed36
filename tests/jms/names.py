"""Destination names that no other test uses."""

from __future__ import annotations

import re
from itertools import count

_numbers = count(1)


class Named:
    """Makes a fresh name from a word that says what it is for."""

    def __init__(self, test: str) -> None:
        self._test = re.sub(r"[^A-Za-z0-9_]+", "_", test)[:60]

    def __call__(self, purpose: str) -> str:
        return f"{self._test}.{next(_numbers)}.{purpose}"
