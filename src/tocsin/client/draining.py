"""Drains of queues: named, durable locks for readers that plan what they read, and may read it more than once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.client import operations
from tocsin.client.core import Core
from tocsin.client.headers import as_destination
from tocsin.client.pending import Steps
from tocsin.client.reading import about
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import InvalidDestination, ResourceExhausted
from tocsin.model.limits import PAGES_MAX


@dataclass(frozen=True, slots=True)
class DrainTake:
    """What a drain holds under one number."""

    take: int
    messages: int
    """0: there was nothing to take, and `take` is the number before it."""
    bytes: int
    """About how much that is."""
    ranges: tuple[tuple[int, int], ...]
    """(first offset, end) of the messages, those with the highest priority first."""
    more: bool = False
    """The next take would find more at once."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> DrainTake:
        ranges = tuple((int(first), int(end)) for first, end in fields["ranges"])
        return cls(int(fields["take"]), int(fields["messages"]), int(fields["bytes"]), ranges, bool(fields.get("more")))

    @property
    def first(self) -> int:
        """The lowest offset."""
        return min((first for first, _ in self.ranges), default=0)

    @property
    def end(self) -> int:
        """One past the highest offset."""
        return max((end for _, end in self.ranges), default=0)


def take_steps(
    core: Core,
    queue: Destination | str,
    drain: str,
    after: int,
    messages: int | None,
    size: int | None,
    seconds: int | None,
    identity: str | None = None,
) -> Steps[DrainTake]:
    fields = _fields(queue, drain, identity) | {"after": after}
    bounds = {"messages": messages, "bytes": size, "seconds": seconds}
    fields |= {name: value for name, value in bounds.items() if value is not None}
    for _ in _pages(queue):
        reply = yield from operations.request(core, 0, "drain.take", dict(fields))
        taken = DrainTake.of(reply)
        # Otherwise it looked at many messages that others hold, and did not come to the end.
        if taken.messages or not taken.more:
            return taken
    raise AssertionError("the pages have an end of their own")


def list_steps(
    core: Core, queue: Destination | str, drain: str, after: int, upto: int | None, identity: str | None = None
) -> Steps[list[DrainTake]]:
    fields = _fields(queue, drain, identity) | {"after": after}
    if upto is not None:
        fields["upto"] = upto
    found: list[DrainTake] = []
    for _ in _pages(queue):
        reply = yield from operations.request(core, 0, "drain.list", dict(fields))
        found += [DrainTake.of(each) for each in reply["takes"]]
        if not reply.get("more") or not found:
            break
        fields["after"] = found[-1].take
    return found


def finish_steps(
    core: Core, queue: Destination | str, drain: str, upto: int, identity: str | None = None
) -> Steps[int]:
    return (yield from _until_done(core, queue, "drain.finish", _fields(queue, drain, identity) | {"upto": upto}))


def release_steps(core: Core, queue: Destination | str, drain: str, identity: str | None = None) -> Steps[int]:
    return (yield from _until_done(core, queue, "drain.release", _fields(queue, drain, identity)))


def _until_done(core: Core, queue: Destination | str, op: str, fields: dict[str, Any]) -> Steps[int]:
    """One request does a bounded part of it; returns how many messages all of them were about."""
    messages = 0
    for _ in _pages(queue):
        reply = yield from operations.request(core, 0, op, dict(fields))
        messages += int(reply["messages"])
        if not reply.get("more"):
            break
    return messages


def _pages(queue: Destination | str) -> Iterator[None]:
    for _ in range(PAGES_MAX):
        yield
    raise ResourceExhausted(f"What the server says about the drain of {queue} has no end; ask for less at once.")


def _fields(queue: Destination | str, drain: str, identity: str | None) -> dict[str, Any]:
    where = as_destination(queue)
    if where.kind is not Kind.QUEUE:
        raise InvalidDestination(f"{where} is a topic; only queues are drained, topics are replayed.")
    return about(where, identity, drain=drain)
