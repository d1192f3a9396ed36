"""How large a cluster is: client managers, and members of its group, written as in 1x2."""

from __future__ import annotations

import re
from dataclasses import dataclass

CLIENT_MANAGERS_MAX = 16
MEMBERS_MAX = 9


@dataclass(frozen=True, slots=True)
class Shape:
    client_managers: int
    members: int

    def __str__(self) -> str:
        return f"{self.client_managers}x{self.members}"


LOCAL = Shape(1, 2)
"""The smallest cluster that survives the loss of a node."""


def parse_shape(text: str) -> Shape:
    """Raises ValueError with a sentence."""
    found = re.fullmatch(r"(\d{1,2})x(\d{1,2})", text)
    if found is not None:
        shape = Shape(int(found[1]), int(found[2]))
        if 1 <= shape.client_managers <= CLIENT_MANAGERS_MAX and 1 <= shape.members <= MEMBERS_MAX:
            return shape
    raise ValueError(
        f"{text!r} is no shape of a cluster: write client managers x members, such as 1x2, at most"
        f" {CLIENT_MANAGERS_MAX}x{MEMBERS_MAX}."
    )
