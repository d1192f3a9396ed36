"""What applications under load saw and were told, and what must hold of that however much went wrong.

A body is `LANE-NUMBER`. A lane is one producer's messages to one destination with one priority and one delay: those
come in the order of their numbers. A view is what must come whole: a queue, or one subscription of a topic.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.system.processes import PATIENCE

import tocsin


@dataclass(frozen=True, slots=True)
class Seen:
    """One delivery of one message."""

    body: str
    redelivered: bool
    count: int


@dataclass(frozen=True, slots=True)
class View:
    """All of a destination's messages must come to these consumers together, each to one of them."""

    name: str
    destination: str
    consumers: tuple[str, ...]


@dataclass
class Ledger:
    """What the applications know for sure. Everybody writes under `changed`."""

    views: Sequence[View] = ()
    confirmed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Per destination: messages whose producer was told that they are stored."""
    refused: set[str] = field(default_factory=set)
    """Messages whose producer was told that they are not stored."""
    acknowledged: set[tuple[str, str]] = field(default_factory=set)
    """(view, message): acknowledged by a consumer, perhaps in vain: another one may have got it meanwhile."""
    finished: set[tuple[str, str]] = field(default_factory=set)
    """(view, message) whose acknowledgement is stored for sure."""
    resurrected: list[str] = field(default_factory=list)
    """Messages that came although their acknowledgement was stored."""
    early: list[str] = field(default_factory=list)
    """Delayed messages that came before they were due, and when."""
    due: dict[str, float] = field(default_factory=dict)
    """Delayed messages with the time on the monotonic clock before which none may come."""
    seen: dict[str, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    """Per consumer, in the order of delivery."""
    log: dict[int, str] = field(default_factory=dict)
    """What a replay of the retained topic has read, by offset."""
    log_end: int = 0
    """The offset that the replay must read next."""
    answers: Counter[str] = field(default_factory=Counter)
    """What became of requests."""
    wrong_answers: list[str] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    settled: dict[str, int] = field(default_factory=dict)
    """Per lane: up to this number everything is over, since the destinations were found empty."""
    totals: Counter[str] = field(default_factory=Counter)
    """Of earlier rounds, see `settle`."""

    @property
    def confirmations(self) -> int:
        return self.totals["confirmed"] + sum(len(each) for each in self.confirmed.values())

    @property
    def acknowledgements(self) -> int:
        return self.totals["acknowledged"] + len(self.acknowledged)

    @property
    def deliveries(self) -> int:
        return self.totals["seen"] + sum(len(each) for each in self.seen.values())

    @property
    def backlog(self) -> int:
        """Messages that are stored and not acknowledged, as far as applications know."""
        return sum(len(self.confirmed[view.destination]) for view in self.views) - len(self.acknowledged)

    def confirm(self, destination: str, bodies: list[str]) -> None:
        with self.changed:
            self.confirmed[destination].update(bodies)
            self.changed.notify_all()

    def refuse(self, body: str) -> None:
        with self.changed:
            self.refused.add(body)

    def is_drained(self, view: View) -> bool:
        return all((view.name, body) in self.acknowledged for body in self.confirmed[view.destination])

    def wait_for(self, condition: Callable[[], bool], what: str, patience_s: float = PATIENCE) -> None:
        """Returns when the condition holds; an application that failed ends the wait."""
        with self.changed:
            came = self.changed.wait_for(lambda: bool(self.errors) or condition(), patience_s)
        if self.errors:
            raise self.errors[0]
        assert came, f"waited {patience_s:g} s in vain until {what}; {self}"

    def note_replayed(self, offset: int | None, body: str) -> None:
        with self.changed:
            if offset != self.log_end:
                self.resurrected.append(f"{body} at offset {offset} of the replay, not at {self.log_end}")
            else:
                self.log[offset] = body
                self.log_end += 1
            self.changed.notify_all()

    def settle(self, kept_from: int = 0) -> None:
        """Forgets messages that were checked and are over; one that comes again after this has come back to life.

        Of the log it keeps what is retained.
        """
        with self.changed:
            self.totals.update(confirmed=sum(map(len, self.confirmed.values())), acknowledged=len(self.acknowledged))
            self.totals.update(seen=sum(map(len, self.seen.values())))
            for body in (*self.refused, *(body for each in self.confirmed.values() for body in each)):
                lane, number = lane_of(body)
                self.settled[lane] = max(self.settled.get(lane, -1), number)
            for each in (self.confirmed, self.refused, self.acknowledged, self.finished, self.due, self.seen):
                each.clear()
            self.log = {offset: body for offset, body in self.log.items() if offset >= kept_from}

    def __str__(self) -> str:
        confirmed = {name: len(each) for name, each in self.confirmed.items()}
        seen = {name: len(each) for name, each in self.seen.items()}
        missing = {view.name: self._missing(view)[:3] for view in self.views if not self.is_drained(view)}
        return f"confirmed {confirmed}, acknowledged {len(self.acknowledged)}, seen {seen}, missing {missing}"

    def _missing(self, view: View) -> list[str]:
        return sorted(body for body in self.confirmed[view.destination] if (view.name, body) not in self.acknowledged)


class Reader:
    """One consumer's pages of the ledger: what it saw, and what of that is acknowledged."""

    def __init__(self, ledger: Ledger, view: str, name: str) -> None:
        self._ledger, self._view, self._name = ledger, view, name
        self._group: list[str] = []

    @property
    def waiting(self) -> int:
        """Messages seen and not acknowledged."""
        return len(self._group)

    def see(self, message: tocsin.Message, *, given_back: bool = False) -> None:
        body, ledger, now = str(message.body), self._ledger, time.monotonic()
        lane, number = lane_of(body)
        with ledger.changed:
            if (self._view, body) in ledger.finished or number <= ledger.settled.get(lane, -1):
                ledger.resurrected.append(f"{body} at {self._name}")
            if now < ledger.due.get(body, now):
                ledger.early.append(f"{body} by {ledger.due[body] - now:.3f} s")
            ledger.seen[self._name].append(Seen(body, message.redelivered, message.delivery_count))
            if not given_back:
                self._group.append(body)

    def acknowledged(self, *, wholly: bool) -> None:
        """The client says that everything seen so far is acknowledged for good; or that a part of it is not, since
        others get that.
        """
        ledger = self._ledger
        with ledger.changed:
            bodies = {(self._view, body) for body in self._group}
            ledger.acknowledged |= bodies
            if wholly:
                ledger.finished |= bodies
            self._group.clear()
            ledger.changed.notify_all()


def lane_of(body: str) -> tuple[str, int]:
    lane, _, number = body.rpartition("-")
    return lane, int(number)


def check(ledger: Ledger) -> None:
    """What must hold however often a server died."""
    check_round(ledger)
    assert len(ledger.finished) > len(ledger.acknowledged) // 2, "too little is certain for the test to mean anything"


def check_round(ledger: Ledger) -> None:
    """The same for a short time with many faults, after which little may be certain."""
    assert not ledger.resurrected, f"came again after a stored acknowledgement: {ledger.resurrected[:5]}"
    assert not ledger.early, f"came before it was due: {ledger.early[:5]}"
    assert not ledger.wrong_answers, f"not the answer to a request: {ledger.wrong_answers[:5]}"
    for view in ledger.views:
        _check_view(ledger, view)
    for consumer, deliveries in ledger.seen.items():
        _check_order(consumer, deliveries)


def _check_view(ledger: Ledger, view: View) -> None:
    seen = [each for consumer in view.consumers for each in ledger.seen[consumer]]
    came = {each.body for each in seen}
    lost = sorted(ledger.confirmed[view.destination] - came)
    assert not lost, f"a confirmed message was lost by {view.name}: {lost[:5]}, {len(lost)} in all"
    firsts = Counter(each.body for each in seen if not each.redelivered)
    twice = [body for body, times in firsts.items() if times > 1]
    assert not twice, f"delivered twice without the flag by {view.name}: {twice[:5]}"
    refused = sorted(ledger.refused & came)
    assert not refused, f"delivered by {view.name} though refused: {refused[:5]}"


def _check_order(consumer: str, deliveries: list[Seen]) -> None:
    """Messages that were never delivered before come in the order in which their producer sent them."""
    known: set[str] = set()
    lanes: dict[str, list[int]] = defaultdict(list)
    for each in deliveries:
        if each.body in known:
            assert each.redelivered, f"{consumer} saw {each.body} again without the flag"
        known.add(each.body)
        if not each.redelivered:
            lane, number = lane_of(each.body)
            lanes[lane].append(number)
    for lane, numbers in lanes.items():
        for earlier, later in pairwise(numbers):
            assert earlier < later, f"{consumer} saw {lane}-{earlier} before {lane}-{later}"


def check_log(ledger: Ledger, topic: str) -> None:
    """A retained topic is one log: every confirmed message is in it once, and those of a producer in order."""
    bodies = list(ledger.log.values())
    lost = sorted(ledger.confirmed[topic] - set(bodies))
    assert not lost, f"a confirmed message was lost by the replay: {lost[:5]}, {len(lost)} in all"
    twice = [body for body, times in Counter(bodies).items() if times > 1]
    assert not twice, f"the log has twice: {twice[:5]}"
    _check_order("the replay", [Seen(body, False, 1) for body in bodies])
