"""After a promotion, messages to topics wait until every client manager that is there has said who its subscribers are.

Subscriptions that are not durable go with the primary that had them, and come back when their client managers link:
what is stored before that would pass them by. Subscribing itself does not wait, nor does anything about queues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from tocsin.cluster.commands import Administer, CloseProducer, CloseSession, Command, Publish
from tocsin.message_manager.directory import Directory
from tocsin.model.destination import Kind, parse_destination
from tocsin.model.limits import LINK_BYTES_WAITING_MAX, LINK_MESSAGES_WAITING_MAX, TOPIC_HOLD_SECONDS

_STAGING = frozenset({"stage.open", "stage.check", "stage.commit"})
"""All of them ask who hears a topic."""


def _is_about_a_queue(fields: dict[str, Any]) -> bool:
    """Whether a stage is opened for one; a commit may be about many destinations."""
    return "destination" in fields and parse_destination(fields["destination"]).kind is Kind.QUEUE


class TopicHold:
    __slots__ = ("_bytes", "_directory", "_held", "_sessions", "until")

    def __init__(self, directory: Directory, now: float) -> None:
        self.until = now + TOPIC_HOLD_SECONDS
        self._directory = directory
        self._held: deque[tuple[str, Command]] = deque()
        self._sessions: set[bytes] = set()
        self._bytes = 0

    @property
    def full(self) -> bool:
        return len(self._held) >= LINK_MESSAGES_WAITING_MAX or self._bytes >= LINK_BYTES_WAITING_MAX

    @property
    def empty(self) -> bool:
        return not self._held

    def keeps(self, origin: str, command: Command) -> bool:
        """Whether the command waits here: messages to a topic, also staged ones, or the end of who has sent some."""
        if isinstance(command, Publish):
            state = self._directory.by_id.get(command.destination)
            if state is None or state.address.kind is not Kind.TOPIC:
                return False
            self._sessions.add(command.session)
            self._bytes += len(command.block.data)
        elif isinstance(command, Administer):
            if command.operation not in _STAGING or _is_about_a_queue(command.fields):
                return False
        elif not isinstance(command, CloseProducer | CloseSession) or command.session not in self._sessions:
            return False
        self._held.append((origin, command))
        return True

    def release(self) -> Iterator[tuple[str, Command]]:
        """All that waited, in the order in which it came."""
        while self._held:
            yield self._held.popleft()
