"""What tests put into destinations and find in them, through the plain client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tocsin


def publish(url: str, topic: str, values: Sequence[bytes], retained: bool = True) -> None:
    with tocsin.connect(url) as connection:
        connection.create_destination(topic, "topic", retained=retained)
        with connection.session() as session:
            producer = session.producer(session.topic(topic))
            for value in values:
                producer.send(value)


def messages(url: str, topic: str) -> list[tocsin.Message]:
    """All messages of a retained topic."""
    with tocsin.connect(url) as connection:
        latest = connection.show_destination(f"topic:{topic}")["latest"]
        with connection.session() as session:
            consumer = session.replay(session.topic(topic), start="earliest")
            return [message for _ in range(latest) if (message := consumer.receive(timeout=10)) is not None]


def bodies(url: str, topic: str) -> list[Any]:
    return [message.body for message in messages(url, topic)]


def dead_messages(url: str, origin: str) -> list[tocsin.Message]:
    """Dead messages that came from a destination, oldest first; they stay where they are."""
    chosen = f"JMS_tocsin_origin = '{origin}'"
    with (
        tocsin.connect(url) as connection,
        connection.session() as session,
        session.browser(session.queue("_DMQ"), selector=chosen) as browser,
    ):
        return list(browser)
