"""The bus within one process: what one manager sends, the other gets, in order and without copies.

Whoever drives the members delivers in every turn, so the queue holds one turn's commands and answers; how many those
are is bounded where they come from, by the credit of producers and consumers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

Handler = Callable[[str, Any], None]
"""Called with the sender's name and what it sent."""


class MemoryBus:
    """Members are known by name. Sending only queues; `deliver` hands over, so no member is called inside another."""

    __slots__ = ("_members", "_queue")

    def __init__(self) -> None:
        self._members: dict[str, Handler] = {}
        self._queue: deque[tuple[str, str, Any]] = deque()

    def join(self, name: str, handler: Handler) -> None:
        assert name not in self._members, f"{name} is on the bus already"
        self._members[name] = handler

    def send(self, sender: str, receiver: str, content: Any) -> None:
        assert receiver in self._members, f"{receiver} is not on the bus"
        self._queue.append((sender, receiver, content))

    def deliver(self) -> bool:
        """Hands over what was queued when the call began; says whether there was anything."""
        count = len(self._queue)
        for _ in range(count):
            sender, receiver, content = self._queue.popleft()
            self._members[receiver](sender, content)
        return count > 0
