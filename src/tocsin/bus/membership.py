"""Who is there on one channel. A member is one incarnation of a node: its boot counter tells it from earlier ones.

          heard                both ways                silent          silent or deaf, left, restarted
    (new) ------> HEARD ------------------------> UP <--------> SUSPECTED --------------------> DOWN
                    ^                                   heard                                    |
                    +----------------------------------------------------------------------------+  heard again

A member counts as up only when it hears us, too: its heartbeat names our incarnation. That cannot be a recording, since
no earlier heartbeat names it, and a link that works in one direction only is no link. Lower boot counters are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tocsin.model.limits import BUS_MEMBERS_MAX


class MemberState(Enum):
    HEARD = "heard"
    UP = "up"
    SUSPECTED = "suspected"
    DOWN = "down"


class Reason(Enum):
    """Why a member is down."""

    SILENT = "nothing was heard of it"
    DEAF = "it does not hear us"
    LEFT = "it said that it leaves"
    RESTARTED = "its next incarnation is there"


@dataclass(slots=True)
class Member:
    node: int
    boot: int
    heard_at: float
    hears_us_at: float
    state: MemberState = MemberState.HEARD
    proven: bool = False
    """It has heard this incarnation of ours, so what comes from it is no recording."""

    @property
    def there(self) -> bool:
        return self.state in (MemberState.UP, MemberState.SUSPECTED)


@dataclass(slots=True)
class MemberChanged:
    channel: int
    node: int
    boot: int
    state: MemberState
    reason: Reason | None = None
    """Given when it is down."""


class Membership:
    """One channel's members. Its methods return what has changed; the owner hands that on."""

    __slots__ = ("_channel", "_down_seconds", "_members", "_suspect_seconds")

    def __init__(self, channel: int, suspect_seconds: float, down_seconds: float) -> None:
        self._channel = channel
        self._suspect_seconds, self._down_seconds = suspect_seconds, down_seconds
        self._members: dict[int, Member] = {}

    def get(self, node: int) -> Member | None:
        return self._members.get(node)

    def all(self) -> Iterable[Member]:
        return self._members.values()

    def accepts(self, node: int, boot: int) -> bool:
        """Whether a datagram of this incarnation may be looked at: not of an earlier one, and not one too many."""
        member = self._members.get(node)
        if member is not None:
            return boot >= member.boot
        return len(self._members) < BUS_MEMBERS_MAX or self._oldest_down() is not None

    def appear(self, node: int, boot: int, now: float) -> list[MemberChanged]:
        """An incarnation that was not known is heard for the first time."""
        assert self.accepts(node, boot), "who appears has been accepted"
        changes = []
        before = self._members.get(node)
        if before is not None and before.state is not MemberState.DOWN and before.state is not MemberState.HEARD:
            changes.append(self._change(before, MemberState.DOWN, Reason.RESTARTED))
        if before is None and len(self._members) >= BUS_MEMBERS_MAX:
            oldest = self._oldest_down()
            assert oldest is not None, "accepts() has found one"
            del self._members[oldest.node]
        self._members[node] = Member(node, boot, now, now)
        return changes

    def heard(self, member: Member, now: float) -> MemberChanged | None:
        """Anything authentic came from it."""
        member.heard_at = now
        if member.state is MemberState.SUSPECTED:
            return self._change(member, MemberState.UP)
        if member.state is MemberState.DOWN:
            member.state = MemberState.HEARD
        return None

    def hears_us(self, member: Member, now: float) -> MemberChanged | None:
        """It has shown that it hears this incarnation of ours."""
        member.hears_us_at = now
        member.proven = True
        if member.state is MemberState.HEARD:
            return self._change(member, MemberState.UP)
        return None

    def left(self, member: Member) -> MemberChanged | None:
        if not member.there:
            member.state = MemberState.DOWN
            return None
        return self._change(member, MemberState.DOWN, Reason.LEFT)

    def tick(self, now: float) -> list[MemberChanged]:
        changes = []
        for member in self._members.values():
            if member.state is MemberState.DOWN:
                continue
            silent, deaf = now - member.heard_at, now - member.hears_us_at
            if silent >= self._down_seconds or (member.there and deaf >= self._down_seconds):
                known = member.there
                # Who says nothing any more cannot say that it hears us either.
                reason = Reason.SILENT if silent >= self._suspect_seconds else Reason.DEAF
                change = self._change(member, MemberState.DOWN, reason)
                if known:
                    changes.append(change)
            elif silent >= self._suspect_seconds and member.state is MemberState.UP:
                changes.append(self._change(member, MemberState.SUSPECTED))
        return changes

    def next_deadline(self, now: float) -> float:
        """When silence will mean something new, if it lasts."""
        deadline = now + self._down_seconds
        for member in self._members.values():
            if member.state is MemberState.DOWN:
                continue
            patience = self._suspect_seconds if member.state is MemberState.UP else self._down_seconds
            deadline = min(deadline, member.heard_at + patience)
            if member.there:
                deadline = min(deadline, member.hears_us_at + self._down_seconds)
        return deadline

    def heard_lately(self, now: float) -> list[tuple[int, int]]:
        """Incarnations to name in a heartbeat."""
        return [
            (member.node, member.boot)
            for member in self._members.values()
            if member.state is not MemberState.DOWN and now - member.heard_at < self._suspect_seconds
        ]

    def _oldest_down(self) -> Member | None:
        down = [member for member in self._members.values() if member.state is MemberState.DOWN]
        return min(down, key=lambda member: member.heard_at, default=None)

    def _change(self, member: Member, state: MemberState, reason: Reason | None = None) -> MemberChanged:
        member.state = state
        return MemberChanged(self._channel, member.node, member.boot, state, reason)
