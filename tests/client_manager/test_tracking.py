"""What a client manager keeps of a consumer, so that it can be opened again elsewhere."""

from __future__ import annotations

from tocsin.client_manager.tracking import TrackedConsumer
from tocsin.cluster.commands import Delivery, OpenConsumer
from tocsin.model.destination import parse_destination
from tocsin.wire.frames import Outcome, Settle


def tracked() -> TrackedConsumer:
    opened = OpenConsumer(1, b"s" * 16, 2, parse_destination("queue:q"), b"c" * 16, None, messages=10, bytes=1000)
    consumer = TrackedConsumer(1, opened)
    consumer.delivered(Delivery(opened.key, 10, 0, [(0, 6, 1, 0)], b""))
    return consumer


def test_what_is_not_kept_is_gone_also_when_something_was_said_about_it() -> None:
    """The acknowledgement of a message that is not locked any more is void: the client must not take it for done."""
    consumer = tracked()
    consumer.settling(Settle(2, Outcome.ACKNOWLEDGE, 1, [(10, 12)]))
    assert consumer.held() == [(10, 16)]
    assert consumer.reopened([(11, 14)]) == [(10, 11), (14, 16)]
    assert consumer.held() == [(10, 14)]


def test_a_reader_of_a_range_goes_on_with_all_that_it_asked_for() -> None:
    start = {"offset": 5, "end": 90, "columns": ["key"]}
    address = parse_destination("topic:t")
    opened = OpenConsumer(1, b"s" * 16, 2, address, b"c" * 16, None, "replay", start=start, messages=9, bytes=1000)
    reader = TrackedConsumer(1, opened)
    assert [command.start for command in reader.again(1, lambda: 7) if isinstance(command, OpenConsumer)] == [start]
    reader.delivered(Delivery(opened.key, 4, 0, [(1, 3, 1, 0), (4, 6, 1, 0)], b"x" * 100))
    (again,) = reader.again(1, lambda: 8)
    assert isinstance(again, OpenConsumer)
    assert again.start == {"offset": 10, "end": 90, "columns": ["key"]} and again.bytes == 900
    reader.identity = "here"
    (again,) = reader.again(1, lambda: 9)
    assert isinstance(again, OpenConsumer)
    assert again.start == {"offset": 10, "end": 90, "columns": ["key"], "identity": "here"}
