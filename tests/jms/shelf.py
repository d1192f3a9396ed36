"""Messages to try selectors on."""

from __future__ import annotations

from typing import Any

import tocsin


class Shelf:
    """A queue of messages, each named by its body, that can be asked which ones a selector matches."""

    def __init__(self, session: tocsin.Session, queue: tocsin.Destination) -> None:
        self._session = session
        self._queue = queue
        self._producer = session.producer(queue)

    def put(self, name: str, properties: dict[str, Any] | None = None, **options: Any) -> None:
        self._producer.send(name, properties=properties or {}, **options)

    def matching(self, selector: str | None) -> list[Any]:
        return [message.body for message in self._session.browser(self._queue, selector)]

    def holds(self, selector: str) -> bool:
        return bool(self.matching(selector))
