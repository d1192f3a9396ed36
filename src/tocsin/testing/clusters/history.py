"""What applications saw: what they sent and what was confirmed, what they received and acknowledged. Checks as it goes.

I1   everything confirmed is delivered in the end (or was moved to the dead messages)
I8   each producer's messages are stored once each and in order: one offset each, rising
I9   a message that is delivered after some application has had it is flagged
I10  a message whose acknowledgement was confirmed is not delivered again
T1   a delayed message is not delivered early, as long as one primary has it: another may be told another time
I12  every message is in one place: acknowledged, dead, or still waiting

A delivery may be under way for long, in a network or in a buffer, and the servers may have given the message to
somebody else meanwhile. So what counts for I9 and I10 is when the server sent it, not when the application got it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tocsin.model.errors import IllegalState, TocsinError
from tocsin.testing.simulation.register_checks import Violation

DEAD_MESSAGES = "queue:_DMQ"
HOSTILE_BODY = "hostile"
_FASTEST = 0.9
"""Of the true time, by the clocks of servers that run too fast and are slewed forward."""


@dataclass(slots=True)
class Sent:
    """One message of an application. Bodies are unique, so a body names its message."""

    body: str
    destination: str
    lane: str
    at: float
    persistent: bool
    confirmed_at: float | None = None
    refused: bool = False
    excused: bool = False
    """Nobody can expect to see it: its destination was deleted."""
    urgent: bool = False
    """What a selector may ask for."""
    delay: float = 0.0
    """Nobody gets it for so long."""
    reigns: int = 0
    """How many primaries there had been when it was sent. Each goes by its own clock."""


@dataclass(slots=True)
class ViewHistory:
    """What competing consumers of one queue or one subscription saw of it."""

    name: str
    destination: str
    since: float | None = None
    """For a subscription: when it was confirmed to be there."""
    offsets: dict[str, int] = field(default_factory=dict)
    taken: dict[str, float] = field(default_factory=dict)
    """When each body was handed to an application for the first time."""
    acknowledging: set[str] = field(default_factory=set)
    """Those that an application has acknowledged; whether the server heard of it is another question."""
    acknowledged: dict[str, float] = field(default_factory=dict)
    """When the acknowledgement of each was confirmed."""
    urgent: bool = False
    """It selects, and has nothing else."""


class Received(NamedTuple):
    """A message as an application gets it."""

    body: str
    offset: int
    redelivered: bool
    said_at: float
    who: str


class History:
    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self.views: dict[str, ViewHistory] = {}
        self.dead: dict[str, int] = {}
        self.confirmed = self.deliveries = self.redeliveries = self.acknowledgements = 0
        self.settlements = 0
        """What applications said about messages that they had got."""
        self.reigns: Callable[[], int] = lambda: 0
        """How many primaries there have been."""
        self.clocks_set = False
        """Somebody has set clocks, so that the next primary's may show any time."""
        self._refused_lanes: set[tuple[str, str]] = set()

    def view(self, name: str, destination: str) -> ViewHistory:
        return self.views.setdefault(name, ViewHistory(name, destination))

    # ---- producers

    def sends(self, sent: Sent) -> None:
        assert sent.body not in self.sent, "bodies are unique"
        self.sent[sent.body] = sent

    def confirms(self, sent: Sent, time: float) -> None:
        self.confirmed += 1
        sent.confirmed_at = time

    def refuses(self, sent: Sent, error: TocsinError) -> None:
        """I8: only behind what was refused for another reason something may be missing."""
        sent.refused = True
        lane = (sent.lane, sent.destination)
        if isinstance(error, IllegalState) and lane not in self._refused_lanes:
            raise Violation("I8", f"{sent.body} was refused, and nothing before it was: {error}")
        self._refused_lanes.add(lane)

    def deletes(self, destination: str) -> None:
        """Whatever was sent to it until now may be gone."""
        for sent in self.sent.values():
            if sent.destination == destination:
                sent.excused = True

    # ---- consumers

    def takes(self, view: ViewHistory, received: Received, time: float) -> None:
        """An application gets a message."""
        self.deliveries += 1
        body, who = received.body, received.who
        if body == HOSTILE_BODY and view.name == DEAD_MESSAGES:
            return  # Its sender has let it die, which is nobody's affair.
        sent = self.sent.get(body)
        if sent is None:
            raise Violation("I8", f"{who} got {body} from {view.name}, which nobody sent")
        if sent.destination != view.destination and view.destination != DEAD_MESSAGES:
            raise Violation("I8", f"{who} got {body} from {view.name}, but it was sent to {sent.destination}")
        if sent.refused:
            raise Violation("I8", f"{who} got {body} from {view.name}, but its producer was told that it is not stored")
        if view.urgent and not sent.urgent:
            raise Violation("I8", f"{who} got {body} from {view.name}, which does not select it")
        if sent.delay and sent.reigns == self.reigns() and received.said_at < sent.at + _FASTEST * sent.delay:
            early = sent.at + sent.delay - received.said_at
            raise Violation("T1", f"{who} got {body} from {view.name} {early:.1f} s early")
        if view.destination == DEAD_MESSAGES:
            self.dead[body] = self.dead.get(body, 0) + 1
        else:
            self._check_take(view, received)
        view.taken.setdefault(body, time)

    def _check_take(self, view: ViewHistory, received: Received) -> None:
        body, offset, who = received.body, received.offset, received.who
        known = view.offsets.setdefault(body, offset)
        if known != offset:
            raise Violation("I8", f"{who} got {body} from {view.name} at offset {offset}; it was at {known} before")
        if view.acknowledged.get(body, math.inf) < received.said_at:
            raise Violation("I10", f"{who} got {body} from {view.name} after its acknowledgement was confirmed")
        if body in view.taken:
            self.redeliveries += 1
            if view.taken[body] < received.said_at and not received.redelivered:
                raise Violation("I9", f"{who} got {body} from {view.name} again, without a flag")

    def acknowledged(self, view: ViewHistory, bodies: Iterable[str], time: float) -> None:
        """The server has confirmed the acknowledgement."""
        for body in bodies:
            self.acknowledgements += 1
            view.acknowledged.setdefault(body, time)

    # ---- the end

    def missing(self, view: ViewHistory) -> list[str]:
        """Confirmed messages that this view should have shown to somebody by now, and that are not accounted for."""
        since = view.since
        return [
            sent.body
            for sent in self.sent.values()
            if sent.destination == view.destination
            and sent.confirmed_at is not None
            and sent.persistent
            and not sent.excused
            and not (sent.delay and self.clocks_set and sent.reigns != self.reigns())
            and (sent.urgent or not view.urgent)
            and (since is None or sent.at > since)
            and sent.body not in view.acknowledging
            and sent.body not in self.dead
        ]

    def all_missing(self) -> dict[str, list[str]]:
        found = {view.name: self.missing(view) for view in self.views.values() if view.destination != DEAD_MESSAGES}
        return {name: bodies for name, bodies in found.items() if bodies}

    def check_order(self) -> None:
        """I8: offsets rise in the order in which a producer sent; for a volatile message another's may be taken, and a
        delayed one has its place when it is due.
        """
        for view in self.views.values():
            last: dict[tuple[str, str], tuple[int, str]] = {}
            for sent in self.sent.values():
                offset = view.offsets.get(sent.body)
                if offset is None or not sent.persistent or sent.delay:
                    continue
                key = (sent.lane, sent.destination)
                if key in last and last[key][0] >= offset:
                    raise Violation("I8", f"{sent.body} is at {offset}, {last[key][1]} before it at {last[key][0]}")
                last[key] = (offset, sent.body)

    def check_accounts(self) -> None:
        """I12: nothing is both acknowledged and dead, and nothing is dead twice in a queue."""
        for view in self.views.values():
            if view.since is not None or view.destination == DEAD_MESSAGES:
                continue
            for body in self.dead:
                if body in view.acknowledged and self.sent[body].destination == view.destination:
                    raise Violation("I12", f"{body} was acknowledged in {view.name} and is a dead message as well")
