"""Requests that groups have not answered. They are said again, in their order, on every new link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.cluster.commands import (
    Administer,
    Answer,
    CloseConnection,
    CloseConsumer,
    CloseSession,
    Failed,
    OpenConsumer,
    OpenProducer,
)
from tocsin.model.errors import ConnectionFailed, InvalidDestination, ResourceExhausted, StaleName
from tocsin.model.limits import REQUESTS_PER_GROUP_MAX

Request = OpenProducer | OpenConsumer | CloseConsumer | CloseSession | CloseConnection | Administer
Done = Callable[[Answer | Failed], None]

_REPEATED = frozenset({"destination.delete", "subscription.delete"})
"""When one of these finds nothing the second time, the first time did it."""


@dataclass(slots=True)
class _Pending:
    command: Request
    done: Done
    sent: bool = False
    repeated: bool = False
    """A primary may have heard it before."""


class Pending:
    def __init__(self, send: Callable[[int, Request], bool], is_wanted: Callable[[int], bool]) -> None:
        """`is_wanted` says whether somebody still waits for the answer to a request."""
        self._send = send
        self._is_wanted = is_wanted
        self._waiting: dict[int, dict[int, _Pending]] = {}

    def ask(self, group: int, command: Request, done: Done) -> None:
        waiting = self._waiting.setdefault(group, {})
        if len(waiting) >= REQUESTS_PER_GROUP_MAX and isinstance(command, OpenProducer | OpenConsumer | Administer):
            # What ends something is never refused; there is no more of it than there are sessions and consumers.
            error = ResourceExhausted(f"Group {group} has not answered {len(waiting)} requests; try again later.")
            done(Failed(command.request, error))
            return
        waiting[command.request] = _Pending(command, done, self._send(group, command))

    def answered(self, group: int, reply: Answer | Failed) -> bool:
        """False for an answer to a request that is not waited for."""
        found = self._waiting.get(group, {}).pop(reply.request, None)
        if found is None:
            return False
        command = found.command
        if found.repeated and isinstance(command, Administer) and command.operation in _REPEATED and _missing(reply):
            reply = Answer(reply.request, {})
        found.done(reply)
        return True

    def again(self, group: int) -> None:
        """On a new link. What was asked for clients that are gone is left out, unless it ends something: it might be
        what the group was too busy with to answer.
        """
        waiting = self._waiting.get(group, {})
        for request, each in list(waiting.items()):
            if isinstance(each.command, Administer) and not self._is_wanted(request):
                del waiting[request]
                each.done(Failed(request, ConnectionFailed("The client that asked is gone.")))
                continue
            each.repeated = each.sent
            each.sent = self._send(group, each.command)


def _missing(reply: Answer | Failed) -> bool:
    return (
        isinstance(reply, Failed)
        and isinstance(reply.error, InvalidDestination)
        and not isinstance(reply.error, StaleName)
    )


class Gathering:
    """The answers of several groups to one request."""

    def __init__(self, groups: Sequence[int], done: Callable[[list[Answer | Failed]], None]) -> None:
        self._left = len(groups)
        self._replies: list[Answer | Failed] = []
        self._done = done

    def take(self, reply: Answer | Failed) -> None:
        self._replies.append(reply)
        self._left -= 1
        if not self._left:
            self._done(self._replies)


def numbered(reply: Answer | Failed, request: int) -> Answer | Failed:
    """The same answer to another request."""
    if isinstance(reply, Answer):
        return Answer(request, reply.fields)
    return Failed(request, reply.error)


def with_incarnation(command: Administer, incarnation: int) -> Administer:
    if not incarnation:
        return command
    fields: dict[str, Any] = {**command.fields, "incarnation": incarnation}
    return Administer(command.request, command.operation, fields)
