"""Who is there on one channel. A member is one incarnation of a node: its salt tells it from all others, its boot
counter from earlier ones.

          heard                both ways                silent          silent or deaf, left, restarted
    (new) ------> HEARD ------------------------> UP <--------> SUSPECTED --------------------> DOWN
                    ^                                   heard                                    |
                    +----------------------------------------------------------------------------+  heard again

An incarnation that is heard is only a claim, which our heartbeats name. It becomes the member, and ends the one before,
when it has shown that it hears us: its heartbeat names our salt. That cannot be a recording, since nothing recorded
earlier names it, and a link that works in one direction only is no link. So recordings can neither end a member nor
keep the real node out. Boot counters lower than the member's are refused, equal ones of another salt as long as it is
there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tocsin.model.limits import BUS_CLAIMS_PER_NODE, BUS_MEMBERS_MAX


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
    salt: int
    heard_at: float
    hears_us_at: float
    state: MemberState = MemberState.HEARD

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

    __slots__ = ("_channel", "_claims", "_down_seconds", "_members", "_suspect_seconds")

    def __init__(self, channel: int, suspect_seconds: float, down_seconds: float) -> None:
        self._channel = channel
        self._suspect_seconds, self._down_seconds = suspect_seconds, down_seconds
        self._members: dict[int, Member] = {}
        """By node: the incarnation that has last shown that it hears us."""
        self._claims: dict[int, Member] = {}
        """By salt: incarnations that are heard and have not shown it; may be recordings."""

    def get(self, node: int) -> Member | None:
        return self._members.get(node)

    def all(self) -> Iterable[Member]:
        return self._members.values()

    def find(self, node: int, salt: int) -> Member | None:
        """The member or the claim that this incarnation is."""
        member = self._members.get(node)
        return member if member is not None and member.salt == salt else self._claims.get(salt)

    def accepts(self, node: int, boot: int, salt: int) -> bool:
        """Whether a datagram of this incarnation may be looked at: not of an earlier one, and not one too many."""
        member = self._members.get(node)
        if member is None:
            return len(self._members) < BUS_MEMBERS_MAX or self._oldest_down() is not None
        if member.state is MemberState.DOWN:
            return boot >= member.boot
        return boot > member.boot or salt == member.salt

    def appear(self, node: int, boot: int, salt: int, now: float) -> Member:
        """An incarnation that was not known is heard for the first time."""
        others = [claim for claim in self._claims.values() if claim.node == node]
        if len(others) >= BUS_CLAIMS_PER_NODE:
            del self._claims[min(others, key=lambda claim: claim.heard_at).salt]
        claim = self._claims[salt] = Member(node, boot, salt, now, now)
        return claim

    def is_claim(self, member: Member) -> bool:
        return self._claims.get(member.salt) is member

    def prove(self, member: Member) -> list[MemberChanged]:
        """A claim has shown that it hears us: it is the member from now on."""
        changes = []
        before = self._members.get(member.node)
        if before is not None and before.there:
            changes.append(self._change(before, MemberState.DOWN, Reason.RESTARTED))
        if before is None and len(self._members) >= BUS_MEMBERS_MAX:
            oldest = self._oldest_down()
            if oldest is not None:
                del self._members[oldest.node]
        for salt in [each for each, claim in self._claims.items() if claim.node == member.node]:
            # What is later will be heard again.
            del self._claims[salt]
        self._members[member.node] = member
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
        if member.state is MemberState.HEARD:
            return self._change(member, MemberState.UP)
        return None

    def left(self, member: Member) -> MemberChanged | None:
        if not member.there:
            member.state = MemberState.DOWN
            return None
        return self._change(member, MemberState.DOWN, Reason.LEFT)

    def expire(self, now: float) -> bool:
        """Forgets claims that are silent; says whether there were any."""
        silent = [salt for salt, claim in self._claims.items() if now - claim.heard_at >= self._down_seconds]
        for salt in silent:
            del self._claims[salt]
        return bool(silent)

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

    def heard_lately(self, now: float) -> list[int]:
        """Salts of the incarnations to name in a heartbeat, as many as fit: members, then claims."""
        heard = [member for member in self._members.values() if member.state is not MemberState.DOWN]
        named = [each.salt for each in (*heard, *self._claims.values()) if now - each.heard_at < self._suspect_seconds]
        return named[:BUS_MEMBERS_MAX]

    def _oldest_down(self) -> Member | None:
        down = [member for member in self._members.values() if member.state is MemberState.DOWN]
        return min(down, key=lambda member: member.heard_at, default=None)

    def _change(self, member: Member, state: MemberState, reason: Reason | None = None) -> MemberChanged:
        member.state = state
        return MemberChanged(self._channel, member.node, member.boot, state, reason)
