"""One dead message queue for clients, where each group has its own.

A consumer of it is opened at every group, under a number of its own for each: the client's number, with the place of
the group among all groups in the upper bits. The offsets that the client sees have it in their upper bits too, so that
what it settles or sends back finds the way, through whichever client manager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tocsin.client_manager.merging import merge_counts
from tocsin.client_manager.pending import Done, Gathering
from tocsin.client_manager.placement import Ask
from tocsin.cluster.commands import (
    Administer,
    Answer,
    CloseConsumer,
    CloseSession,
    Command,
    ConsumerEnded,
    ConsumerKey,
    Delivery,
    Failed,
    GrantCredit,
    OpenConsumer,
    Reply,
    SettledTo,
    SettleMessages,
    Unreadable,
)
from tocsin.model.destination import DEAD_MESSAGES
from tocsin.model.errors import IllegalState
from tocsin.model.limits import GROUPS_MAX, HELD_RANGES_MAX
from tocsin.model.ranges import Range, pack_ranges, unpack_ranges
from tocsin.wire.frames import Outcome

_NO_OFFSETS = f"{DEAD_MESSAGES} is spread over all groups of the cluster and has no one row of offsets; browse it."
_NUMBER_BITS = 24
_OFFSET_BITS = 44
assert (GROUPS_MAX + 1) << _NUMBER_BITS < 1 << 32 and (GROUPS_MAX + 1) << _OFFSET_BITS < 1 << 53


def group_of_part(number: int, groups: Sequence[int]) -> int:
    """The group that a consumer of dead messages is at, by its number; 0 for a number without one."""
    place = number >> _NUMBER_BITS
    return groups[place - 1] if 0 < place <= len(groups) else 0


def shifted(ranges: Sequence[Range], place: int) -> list[Range]:
    """Offsets of a group as clients see them."""
    base = place << _OFFSET_BITS
    return [(first + base, end + base) for first, end in ranges]


def share(ranges: Sequence[Range], place: int) -> list[Range]:
    """What of the offsets that a client names is a group's, as the group counts."""
    base, top = place << _OFFSET_BITS, (place + 1) << _OFFSET_BITS
    return [(max(first, base) - base, min(end, top) - base) for first, end in ranges if first < top and end > base]


class _Spread:
    """A consumer at all groups."""

    __slots__ = ("delivered", "ended", "last", "parts", "unconfirmed")

    def __init__(self, opened: OpenConsumer, places: Sequence[int]) -> None:
        self.parts = {place: (opened.session, place << _NUMBER_BITS | opened.consumer) for place in places}
        self.delivered = dict.fromkeys(places, (0, 0))
        self.unconfirmed: dict[int, deque[int]] = {place: deque() for place in places}
        self.ended: set[int] = set()
        self.last = 0

    def credit(self, place: int, command: GrantCredit) -> GrantCredit:
        """What the client may get in all, without what others have sent."""
        others = [each for other, each in self.delivered.items() if other != place]
        messages = max(0, command.messages - sum(each[0] for each in others))
        return GrantCredit(self.parts[place], messages, max(0, command.bytes - sum(each[1] for each in others)))

    def count(self, place: int, delivery: Delivery) -> None:
        messages, size = self.delivered[place]
        messages += sum(end - start for start, end, _, _ in delivery.ranges)
        self.delivered[place] = (messages, size + len(delivery.block))

    def settled(self, place: int, number: int) -> int:
        """A group has settled up to a number; returns up to which all have."""
        unconfirmed = self.unconfirmed[place]
        while unconfirmed and unconfirmed[0] <= number:
            unconfirmed.popleft()
        waiting = [each[0] for each in self.unconfirmed.values() if each]
        return min(waiting) - 1 if waiting else self.last


class DeadLetters:
    """Stands between a client manager and the router of its commands, and passes on all that is not for it."""

    def __init__(
        self, groups: Sequence[int], route: Callable[[Command], None], ask: Ask, next_request: Callable[[], int],
        answer: Callable[[Reply], None], gone: Callable[[ConsumerKey, list[Range], list[Range]], None],
    ) -> None:  # fmt: skip
        self._groups = groups
        # Groups are known by their place among all, from 1 on.
        self._places = range(1, len(groups) + 1)
        self._route = route
        self._ask = ask
        self._next_request = next_request
        self._answer = answer
        self._gone = gone
        self._consumers: dict[ConsumerKey, _Spread] = {}
        self._requests: dict[int, Done] = {}

    # ---- commands

    def route(self, command: Command) -> None:
        match command:
            case OpenConsumer() if command.destination.name == DEAD_MESSAGES:
                if command.mode == "replay":
                    self._answer(Failed(command.request, IllegalState(_NO_OFFSETS)))
                else:
                    self._open(command)
            case SettleMessages() if command.key in self._consumers:
                self._settle(command, self._consumers[command.key])
            case GrantCredit() if command.key in self._consumers:
                consumer = self._consumers[command.key]
                for place in self._places:
                    self._route(consumer.credit(place, command))
            case CloseConsumer() if command.key in self._consumers:
                done = partial(self._finish, command.request)
                self._close(self._consumers.pop(command.key), Gathering(self._places, done).take)
            case Administer() if _about(command) and command.operation.startswith(("offset.", "drain.")):
                self._answer(Failed(command.request, IllegalState(_NO_OFFSETS)))
            case Administer() if self._is_about_dead_messages(command):
                self._administer(command)
            case CloseSession():
                for key in [key for key in self._consumers if key[0] == command.session]:
                    del self._consumers[key]
                self._route(command)
            case _:
                self._route(command)

    def _open(self, command: OpenConsumer) -> None:
        if command.consumer >> _NUMBER_BITS:
            error = IllegalState(f"A consumer of {DEAD_MESSAGES} needs a number below {1 << _NUMBER_BITS}.")
            self._answer(Failed(command.request, error))
            return
        consumer = self._consumers[command.key] = _Spread(command, self._places)
        replies: dict[int, Answer | Failed] = {}

        def opened(place: int, reply: Answer | Failed) -> None:
            replies[place] = reply
            if len(replies) == len(self._places):
                self._opened(command, consumer, replies)

        for place, (_, number) in consumer.parts.items():
            request = self._next_request()
            self._requests[request] = partial(opened, place)
            held = None if command.held is None else share(command.held, place)
            # Credit follows when all are open: nothing comes before the client's answer.
            self._route(replace(command, request=request, consumer=number, held=held, messages=0, bytes=0))

    def _opened(self, command: OpenConsumer, consumer: _Spread, replies: dict[int, Answer | Failed]) -> None:
        failed = next((each for each in replies.values() if isinstance(each, Failed)), None)
        if failed is not None:
            if self._consumers.get(command.key) is consumer:
                del self._consumers[command.key]
                self._close(consumer, lambda reply: None)
            self._answer(Failed(command.request, failed.error))
            return
        fields: dict[str, Any] = {}
        if command.held is not None:
            answers = [(place, each.fields) for place, each in sorted(replies.items()) if isinstance(each, Answer)]
            for name in ("kept", "finished"):
                found = [
                    each for place, reply in answers for each in shifted(unpack_ranges(reply.get(name, b"")), place)
                ]
                fields[name] = pack_ranges(found[:HELD_RANGES_MAX])
        self._answer(Answer(command.request, fields))
        for key in consumer.parts.values():
            self._route(GrantCredit(key, command.messages, command.bytes))

    def _close(self, consumer: _Spread, done: Done) -> None:
        for key in consumer.parts.values():
            request = self._next_request()
            self._requests[request] = done
            self._route(CloseConsumer(request, key))

    def _finish(self, request: int, replies: list[Answer | Failed]) -> None:
        self._answer(Answer(request, {}))

    def _settle(self, command: SettleMessages, consumer: _Spread) -> None:
        settle = command.settle
        consumer.last = max(consumer.last, settle.number)
        shares = {place: ranges for place in self._places if (ranges := share(settle.ranges, place))}
        if settle.outcome is not Outcome.RENEW:
            for place in shares:
                consumer.unconfirmed[place].append(settle.number)
        for place, ranges in shares.items():
            key = consumer.parts[place]
            self._route(SettleMessages(key, replace(settle, consumer=key[1], ranges=ranges)))
        if not shares:
            self._answer(SettledTo(command.key, consumer.settled(self._places[0], 0)))

    def _is_about_dead_messages(self, command: Administer) -> bool:
        if command.operation == "dead.resend":
            return True
        return _about(command) and command.operation in ("destination.show", "destination.purge")

    def _administer(self, command: Administer) -> None:
        gathering = Gathering(self._places, partial(self._administered, command))
        for place in self._places:
            fields = dict(command.fields)
            if "offsets" in fields:
                ranges = [(first, end) for first, end in fields["offsets"]]
                fields["offsets"] = [list(each) for each in share(ranges, place)]
            self._ask(self._groups[place - 1], command.operation, fields, gathering.take)

    def _administered(self, command: Administer, replies: list[Answer | Failed]) -> None:
        failed = next((each for each in replies if isinstance(each, Failed)), None)
        if failed is not None:
            self._answer(Failed(command.request, failed.error))
            return
        found = [each.fields for each in replies if isinstance(each, Answer)]
        self._answer(Answer(command.request, merge_counts(found)))

    # ---- answers

    def answered(self, reply: Reply) -> None:
        match reply:
            case Answer() | Failed():
                done = self._requests.pop(reply.request, None)
                (done or self._answer)(reply)
            case Delivery() | SettledTo() | ConsumerEnded() | Unreadable():
                found = self._part(reply.key)
                if found is None:
                    self._answer(reply)
                else:
                    self._part_answered(*found, reply)
            case _:
                self._answer(reply)

    def _part(self, key: ConsumerKey) -> tuple[ConsumerKey, int] | None:
        """The client's consumer, and the group's place, of what a group says about its part."""
        if not self._consumers:
            return None
        place = key[1] >> _NUMBER_BITS
        whole = (key[0], key[1] & ((1 << _NUMBER_BITS) - 1))
        return (whole, place) if place in self._places and whole in self._consumers else None

    def _part_answered(
        self, key: ConsumerKey, place: int, reply: Delivery | SettledTo | ConsumerEnded | Unreadable
    ) -> None:
        consumer = self._consumers[key]
        match reply:
            case Delivery():
                consumer.count(place, reply)
                offset = reply.offset + (place << _OFFSET_BITS)
                self._answer(Delivery(key, offset, reply.append_time, reply.ranges, reply.block))
            case SettledTo():
                self._answer(SettledTo(key, consumer.settled(place, reply.number)))
            case Unreadable():
                self._answer(Unreadable(key, reply.error))
            case ConsumerEnded():
                consumer.ended.add(place)
                if reply.error is not None or len(consumer.ended) == len(self._places):
                    del self._consumers[key]
                    self._close(consumer, lambda reply: None)
                    self._answer(ConsumerEnded(key, reply.error))

    def gone(self, key: ConsumerKey, ranges: list[Range], finished: list[Range]) -> None:
        found = self._part(key)
        if found is None:
            self._gone(key, ranges, finished)
        else:
            self._gone(found[0], shifted(ranges, found[1]), shifted(finished, found[1]))


def _about(command: Administer) -> bool:
    return bool(command.fields.get("destination") == f"queue:{DEAD_MESSAGES}")
