"""Request and reply: a request carries a temporary queue to answer to, and an id by which the answer is known."""

from __future__ import annotations

import secrets
from typing import Any, Protocol

from tocsin.client import operations
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.delivered import ReceivedMessage
from tocsin.client.headers import is_message
from tocsin.client.pending import Steps
from tocsin.client.producing import ProducerBase, SendOptions
from tocsin.model.destination import Destination
from tocsin.model.errors import ConnectionFailed


class _Consumer(Protocol):
    _state: ConsumerState


class Requester:
    """One session's requests. Replies to requests that were given up are dropped when they come after all."""

    __slots__ = ("_consumer", "_producer", "_queue")

    def __init__(self, queue: Destination, producer: ProducerBase, consumer: _Consumer) -> None:
        self._queue = queue
        self._producer = producer
        self._consumer = consumer._state

    def steps(self, destination: Destination, body: Any, options: SendOptions) -> Steps[ReceivedMessage]:
        options = options.copy()
        options["reply_to"] = self._queue
        correlation = options.get("correlation_id")
        if correlation is None and is_message(body):
            correlation = body.correlation_id
        if correlation is None:
            correlation = secrets.token_urlsafe(12)
        options["correlation_id"] = correlation
        message_id = yield from self._producer._send_steps(body, destination, options)
        while True:
            reply = yield from operations.receive(self._consumer)
            if reply is None:
                raise ConnectionFailed("The session ended before a reply came.")
            # Repliers answer with the request's correlation id or its message id; simple ones with neither.
            if reply.correlation_id in (correlation, message_id, None):
                return reply
