"""What a client manager must be able to say again to a group: open producers and consumers, and what of theirs is not
confirmed. The messages themselves are referred to, and offsets are ranges: nothing here is per message.

It mirrors what a client does when it resumes (client.core_settling), so that a client need not notice that another
member leads the group now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from tocsin.cluster.commands import (
    CloseConsumer,
    Command,
    Delivery,
    GrantCredit,
    OpenConsumer,
    OpenProducer,
    PauseSession,
    Publish,
    SettleMessages,
)
from tocsin.model.limits import HELD_RANGES_MAX
from tocsin.model.ranges import Range, RangeSet
from tocsin.model.reading import go_on_at, of_destination
from tocsin.wire.frames import Outcome, Settle

NextRequest = Callable[[], int]


class TrackedProducer:
    __slots__ = ("confirmed", "group", "left", "opened", "ready", "unconfirmed")

    def __init__(self, group: int, opened: OpenProducer) -> None:
        self.group = group
        self.opened = opened
        # Its client has been away since, and has not opened it again: it is not said again.
        self.left = False
        # The group has answered; until then the request that opens it is what is said again.
        self.ready = False
        # The last sequence that was confirmed, so that nothing behind it waits for what came before.
        self.confirmed = 0
        # Bounded by the producer's credit.
        self.unconfirmed: deque[tuple[int, Publish]] = deque()

    def published(self, command: Publish) -> None:
        block = command.block
        self.unconfirmed.append((block.first_sequence + block.count - 1, command))

    def stored(self, sequence: int) -> None:
        """Everything up to a sequence is stored."""
        self.confirmed = max(self.confirmed, sequence)
        while self.unconfirmed and self.unconfirmed[0][0] <= sequence:
            self.unconfirmed.popleft()

    def refused(self, first: int, last: int) -> None:
        """These are not stored; what came before them may still wait for its confirmation."""
        self.unconfirmed = deque(
            (sequence, command)
            for sequence, command in self.unconfirmed
            if not (first <= command.block.first_sequence and sequence <= last)
        )

    def again(self, request: int, epoch: int) -> list[Command]:
        opened = replace(self.opened, request=request, epoch=epoch, confirmed=self.confirmed)
        return [opened, *(command for _, command in self.unconfirmed)]


class TrackedConsumer:
    __slots__ = (
        "_base", "_delivered", "_granted", "_outstanding", "_position", "_unconfirmed", "group", "identity", "left",
        "opened", "paused", "ready", "reopening",
    )  # fmt: skip

    def __init__(self, group: int, opened: OpenConsumer) -> None:
        self.group = group
        self.opened = opened
        # Its client has been away since, and has not opened it again: it is not said again.
        self.left = False
        self.ready = False
        # Of the destination that it began to read at an offset.
        self.identity: str | None = None
        # Number of the request that opens it on a new link; what is delivered before its answer comes again.
        self.reopening = 0
        self.paused = False
        # Delivered, and nothing said about it yet.
        self._outstanding = RangeSet(opened.held or ())
        self._unconfirmed: deque[Settle] = deque()
        # Messages and bytes since the client opened it: what it may get, what it got, and what it had got when the
        # link began, because the group counts from there.
        self._granted = (opened.messages, opened.bytes)
        self._delivered = (0, 0)
        self._base = (0, 0)
        self._position: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether what is delivered is for its client: what comes before it is open again comes once more."""
        return not self.reopening and not self.left

    @property
    def settles(self) -> bool:
        return self.opened.mode == "consume"

    @property
    def survives(self) -> bool:
        """Whether what it holds is offered to others when it does not: a subscription for a while dies with it."""
        return self.opened.durable or self.opened.destination.kind.word == "queue"

    def delivered(self, delivery: Delivery) -> None:
        messages, size = self._delivered
        offset = delivery.offset
        for start, end, _, _ in delivery.ranges:
            messages += end - start
            if self.settles:
                self._outstanding.add(offset + start, offset + end)
        self._delivered = (messages, size + len(delivery.block))
        self._position = offset + delivery.ranges[-1][1]

    def granted(self, command: GrantCredit) -> GrantCredit:
        """The credit as the group counts it."""
        self._granted = (max(self._granted[0], command.messages), max(self._granted[1], command.bytes))
        messages, size = self._credit()
        return GrantCredit(command.key, messages, size)

    def _credit(self) -> tuple[int, int]:
        return max(0, self._granted[0] - self._base[0]), max(0, self._granted[1] - self._base[1])

    def settling(self, settle: Settle) -> None:
        if settle.outcome is Outcome.RENEW:
            # Its ranges are of no use later, but its number is to be confirmed, too.
            self._unconfirmed.append(replace(settle, ranges=[]))
            return
        for first, end in settle.ranges:
            self._outstanding.remove(first, end)
        self._unconfirmed.append(settle)

    def settled(self, number: int) -> None:
        while self._unconfirmed and self._unconfirmed[0].number <= number:
            self._unconfirmed.popleft()

    def held(self) -> list[Range]:
        """What the client has received and not settled durably, as far as a group is told."""
        # What is beyond is told as gone, and whoever gets it next settles it.
        return list(self._all_held())[:HELD_RANGES_MAX]

    def _all_held(self) -> RangeSet:
        """All of that."""
        held = RangeSet(self._outstanding)
        for settle in self._unconfirmed:
            for first, end in settle.ranges:
                held.add(first, end)
        return held

    def again(self, epoch: int, next_request: NextRequest) -> list[Command]:
        """Opens it on a new link, with all it had."""
        request = self.reopening = next_request()
        self._base = self._delivered
        messages, size = (0, 0) if self.paused else self._credit()
        opened = replace(self.opened, request=request, messages=messages, bytes=size, epoch=epoch)
        key = opened.key
        if opened.mode == "browse":
            # It begins anew, and the client leaves out what it has seen: a position in the log would not do.
            return [CloseConsumer(next_request(), key), opened]
        if opened.start is not None and self._position is not None:
            opened.start = go_on_at(opened.start, self._position)
        if not self.settles:
            opened.start = of_destination(opened.start, self.identity)
            return [opened]
        # What is not named is not kept, and the client hears of it.
        opened.held = self.held()[:HELD_RANGES_MAX]
        self._keep_last_words()
        return [opened, *(SettleMessages(key, settle) for settle in self._unconfirmed)]

    def _keep_last_words(self) -> None:
        """What came again after it was given back is settled by what was said last, or is still to be settled. All
        numbers are said again, also of settlements that are left with nothing: each is to be confirmed.
        """
        unsaid = RangeSet(part for settle in self._unconfirmed for part in settle.ranges)
        for first, end in self._outstanding:
            unsaid.remove(first, end)
        again: deque[Settle] = deque()
        for settle in reversed(self._unconfirmed):
            ranges = [part for first, end in settle.ranges for part in unsaid.within(first, end)]
            for first, end in ranges:
                unsaid.remove(first, end)
            again.appendleft(replace(settle, ranges=ranges))
        self._unconfirmed = again

    def reopened(self, kept: list[Range]) -> list[Range]:
        """The group has opened it again; returns what it holds no more. What was said about that, and is not confirmed,
        has no effect: either it was done before, or somebody else gets the messages.
        """
        self.reopening = 0
        if not self.settles:
            return []
        ours = RangeSet(kept)
        before = list(self._outstanding)
        gone = [part for first, end in self._all_held() for part in ours.missing(first, end)]
        self._outstanding = RangeSet(part for first, end in before for part in ours.within(first, end))
        return gone if self.survives else []


class TrackedSession:
    __slots__ = ("consumers", "epoch", "groups", "id", "looking", "producers")

    def __init__(self, identity: bytes) -> None:
        self.id = identity
        self.epoch = 0
        # Groups that know the session; a dict for its order.
        self.groups: dict[int, None] = {}
        self.producers: dict[int, TrackedProducer] = {}
        self.consumers: dict[int, TrackedConsumer] = {}
        # Consumers whose group is not known yet: the request that opens each, and whether its client is away.
        self.looking: dict[int, tuple[int, bool]] = {}

    def pause(self) -> None:
        for consumer in self.consumers.values():
            consumer.paused = True
        self.looking = {number: (request, True) for number, (request, _) in self.looking.items()}

    def resumed(self) -> None:
        """Its client is back, from elsewhere perhaps: only what it opens again is its own."""
        for producer in self.producers.values():
            producer.left = True
        for consumer in self.consumers.values():
            consumer.left = True

    def is_paused(self, number: int, request: int) -> bool | None:
        """Whether the client of a consumer that is being opened is away; None when it was closed meanwhile."""
        if number in self.looking:
            found, paused = self.looking[number]
            return paused if found == request else None
        known = self.consumers.get(number)
        return known.paused if known is not None and known.opened.request == request else None

    def again(self, group: int, next_request: NextRequest) -> list[Command]:
        """Everything of this session that one group has to hear on a new link."""
        commands: list[Command] = []
        for producer in self.producers.values():
            if producer.group == group and producer.ready and not producer.left:
                commands += producer.again(next_request(), self.epoch)
        consumers = [each for each in self.consumers.values() if each.group == group and each.ready and not each.left]
        for consumer in consumers:
            if consumer.paused:
                commands += consumer.again(self.epoch, next_request)
        if any(consumer.paused for consumer in consumers):
            commands.append(PauseSession(self.id, self.epoch))
        for consumer in consumers:
            if not consumer.paused:
                commands += consumer.again(self.epoch, next_request)
        return commands


class Book:
    """All sessions, by their id."""

    __slots__ = ("claims", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[bytes, TrackedSession] = {}
        self.claims: dict[str, bytes] = {}
        """Client ids that connections of this client manager have been granted."""

    def session(self, identity: bytes, epoch: int) -> TrackedSession:
        session = self.sessions.get(identity)
        if session is None:
            session = self.sessions[identity] = TrackedSession(identity)
        session.epoch = max(session.epoch, epoch)
        return session

    def producer(self, session: bytes, number: int) -> TrackedProducer | None:
        known = self.sessions.get(session)
        return known.producers.get(number) if known is not None else None

    def consumer(self, key: tuple[bytes, int]) -> TrackedConsumer | None:
        known = self.sessions.get(key[0])
        return known.consumers.get(key[1]) if known is not None else None
