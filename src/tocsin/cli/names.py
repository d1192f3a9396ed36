"""How destinations are written: `orders` or `queue:orders` is a queue, `topic:prices` a topic."""

from __future__ import annotations

from tocsin.model.destination import Destination, Kind, check_name, parse_destination


def read_destination(text: str) -> Destination:
    """A bare name is a queue, because that is what most commands are about."""
    if ":" in text:
        return parse_destination(text)
    return Destination(Kind.QUEUE, check_name(text))
