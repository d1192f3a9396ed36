"""Temporary queues and topics: destinations that end with the connection that made them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.model.destination import Destination, parse_destination


class TemporaryDestination(Destination):
    """Used like any destination; only its own connection can consume from it."""

    __slots__ = ("_delete",)
    _delete: Callable[[Destination], Any]

    def __init__(self, text: str, delete: Callable[[Destination], Any]) -> None:
        found = parse_destination(text)
        super().__init__(found.kind, found.name, True)
        object.__setattr__(self, "_delete", delete)

    def delete(self) -> Any:
        """Ends it now; refused while it has consumers. With tocsin.aio: await it."""
        return self._delete(self)

    # Equal to the plain destination of the same name, which is what a reply-to header gives the receiver.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Destination):
            return NotImplemented
        return (self.kind, self.name) == (other.kind, other.name)

    def __hash__(self) -> int:
        return hash((self.kind, self.name, True))
