"""Temporary destinations are destinations that can be deleted."""

from __future__ import annotations

from tocsin.client.temporary import TemporaryDestination
from tocsin.model.destination import Destination, Kind


def test_it_equals_the_destination_that_a_receiver_reads() -> None:
    deleted: list[Destination] = []
    made = TemporaryDestination("queue:_TMP.7", deleted.append)
    plain = Destination(Kind.QUEUE, "_TMP.7", True)

    assert str(made) == "queue:_TMP.7"
    assert made.temporary
    assert made == plain
    assert plain == made
    assert hash(made) == hash(plain)
    assert made != Destination(Kind.TOPIC, "_TMP.7", True)
    assert made != "queue:_TMP.7"
    made.delete()
    assert deleted == [made]
