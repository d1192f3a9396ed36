"""How destinations are written on the command line."""

from __future__ import annotations

import pytest

from tocsin.cli.names import read_destination
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import InvalidDestination


def test_a_bare_name_is_a_queue() -> None:
    assert read_destination("orders") == read_destination("queue:orders") == Destination(Kind.QUEUE, "orders")
    assert read_destination("topic:prices") == Destination(Kind.TOPIC, "prices")


@pytest.mark.parametrize("text", ["", "two words", "stack:orders", "topic:", "orders*"])
def test_bad_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidDestination):
        read_destination(text)
