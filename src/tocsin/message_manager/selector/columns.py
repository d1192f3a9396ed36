"""What a selector reads from a batch of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Value = bool | int | float | str | None
"""A property or header as a selector sees it; None is an unset one."""


@dataclass(frozen=True, slots=True)
class Same:
    """A column with one value for the whole batch."""

    value: Value


Column = Same | Sequence[Value]
"""One value per row, None where it is unset; or the value that all rows share."""


class Columns(Protocol):
    """A batch, asked only for the names that the selector mentions.

    JMSDeliveryMode must come as 'PERSISTENT' or 'NON_PERSISTENT': that is how JMS lets selectors see it.
    """

    def column(self, name: str) -> Column | None:
        """The values under a name; None when no row has one."""
