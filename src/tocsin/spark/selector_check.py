"""A wrong selector is refused when the query is planned, and not by each of its tasks."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.client.sync import Connection
from tocsin.model.destination import DEAD_MESSAGES, Destination


def check_selector(connection: Connection, destinations: Sequence[Destination], selector: str | None) -> None:
    """The server compiles it for an empty range; what it does not understand it says with the position."""
    # The dead messages of a cluster have no one row of offsets.
    where = next((each for each in destinations if each.name != DEAD_MESSAGES), None)
    if selector is None or where is None:
        return
    end = connection.offsets(where).end
    with connection.session() as session:
        for _ in session.read_range(where, end, end, selector=selector):
            raise AssertionError("an empty range has messages")
