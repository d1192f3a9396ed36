"""Credit that waits in a queue of commands: a later one of the same consumer only raises it, and needs no place.

Credit is counted from the opening of a consumer on, so the larger number says all. Without this a client that grants
credit in tiny steps would fill any queue with it, since nobody answers a grant.
"""

from __future__ import annotations

from tocsin.cluster.commands import Command, ConsumerKey, GrantCredit, OpenConsumer


class WaitingGrants:
    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[ConsumerKey, GrantCredit] = {}

    def merges(self, command: Command) -> bool:
        """Whether a command that is about to be queued is contained in one that waits already."""
        if isinstance(command, GrantCredit):
            waiting = self._waiting.setdefault(command.key, command)
            if waiting is command:
                return False
            waiting.messages = max(waiting.messages, command.messages)
            waiting.bytes = max(waiting.bytes, command.bytes)
            return True
        if isinstance(command, OpenConsumer):
            # What comes behind it counts anew, and must not overtake it.
            self._waiting.pop(command.key, None)
        return False

    def taken(self, command: GrantCredit) -> None:
        """It has left the queue."""
        if self._waiting.get(command.key) is command:
            del self._waiting[command.key]

    def clear(self) -> None:
        self._waiting.clear()
