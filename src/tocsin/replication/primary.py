"""The primary: gives every record its place, counts the copies, keeps lease and in-sync set (R3, R4, R5, R9, R16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.cluster.lease import lease_end
from tocsin.cluster.lives import Known
from tocsin.cluster.register import RegisterChange
from tocsin.cluster.register_messages import (
    Accepted,
    Heartbeat,
    HeartbeatAnswer,
    Outdated,
    Promise,
    Refuse,
    Resigned,
)
from tocsin.model.limits import GROUP_VOTERS_MAX, ORDER_BYTES_MAX, ORDER_ENTRIES_MAX, UNCOMMITTED_ENTRIES_MAX
from tocsin.replication import rules
from tocsin.replication.context import Context
from tocsin.replication.events import Record
from tocsin.replication.in_sync import Admission, Followers
from tocsin.replication.log import NOOP, Entry
from tocsin.replication.messages import Acked, Order, OrderEntry, Stand
from tocsin.replication.roles import Trigger

_RESIGNED_LEASES = 2.0
"""How long the one who should follow has for it."""


class Health(NamedTuple):
    """What a primary lacks; nothing when all is well."""

    voteless: tuple[int, ...] = ()
    """Nodes whose vote was not heard of lately, or is lost: a new one does not count before it is taken in."""
    unheard: tuple[int, ...] = ()
    """Nodes of in-sync members that are not heard of where the log ends."""
    stalled: bool = False
    """Nothing is delivered, because there is no lease, or nothing is confirmed."""


class Primary:
    def __init__(self, context: Context, config: GroupConfig, change: RegisterChange, now: float) -> None:
        self._context, self._change = context, change
        self.config, self.epoch = config, config.epoch
        self.pending: GroupConfig | None = None
        """Proposed, and it is not known whether it was chosen. It stays until it is, whatever a round finds (R4)."""
        self.trigger: Trigger | None = None
        self.changes = 0
        self._followers = Followers(context, config, now)
        self._admission = Admission(context)
        self._granted: dict[Replica, float] = {}
        self._answered: dict[Replica, float] = {}
        """When the heartbeat was sent that a voter answered last."""
        self._stamps: dict[int, float] = {}
        self._strangers: dict[int, Replica] = {}
        """By node: voters that answer with a store that the configuration does not know."""
        self._resigned_at = float("-inf")
        self._heartbeat_at = now
        self._disk_moved_at = now
        self._confirmed_at = now
        """When there was last nothing to confirm, or something was."""
        self._now = now
        self.propose([Record(NOOP, _first_words(config))])
        self.tick(now)

    # ---- ordering

    @property
    def has_room(self) -> bool:
        uncommitted = self._context.log.last_lsn - self._context.committed
        return uncommitted < UNCOMMITTED_ENTRIES_MAX and not self._is_resigned(self._now)

    def propose(self, records: Sequence[Record]) -> None:
        """Append and order. Backups and the own disk work at the same time."""
        for piece in _pieces(records):
            self._order(piece)

    def _order(self, records: Sequence[Record]) -> None:
        log = self._context.log
        previous_epoch, first = log.epoch_at(log.last_lsn), log.last_lsn + 1
        entries = []
        for record in records:
            parts = [record.inline, record.data] if record.data else [record.inline]
            log.append(Entry(self.epoch, record.kind, parts))
            named = record.reference is not None
            inline = record.inline if named or not record.data else b"".join(parts)
            entries.append(OrderEntry(record.kind, inline, record.reference))
        order = Order(self.epoch, previous_epoch, first, self._context.committed, tuple(entries))
        self._context.send(self._others(), order)

    def _others(self) -> tuple[int, ...]:
        return self._context.settings.others(self._context.node)

    # ---- committing

    def acked(self, sender: int, message: Acked, now: float) -> None:
        replica, members = Replica(sender, message.store), self._context.memory.members
        older = members.evidence(replica, message.life)
        if older is not None:
            self._followers.forget(replica)
            self._context.send((sender,), Outdated(older))
        elif message.epoch == self.epoch and message.lsn <= self._context.log.last_lsn:
            self._now = now
            if members.note(replica, message.life.start):
                # What it has now, it says now: its files may be a copy that is older than its last word, though not
                # older than what is committed.
                self._followers.forget(replica)
            self._followers.acked(replica, message.lsn, now)
            self._advance()
            if self._admission.awaited:
                self._change_if_wanted(now)

    def log_progress(self, now: float) -> None:
        self._disk_moved_at = now
        self._advance()

    def _advance(self) -> None:
        context, durable = self._context, self._followers.durable
        self._followers.own_progress()
        configs = rules.configs_to_satisfy(self.config, self.pending)
        lsn = min(rules.commit_point(config, context.replica, durable) for config in configs)
        lsn = self._admission.bound(durable, lsn)
        if lsn > context.committed and rules.is_own(context.log.epoch_at(lsn), self.epoch):
            context.commit(lsn, self.copies_of(lsn))
            self._confirmed_at = self._now

    def copies_of(self, lsn: int) -> int:
        """On how many disks of in-sync members a record is, as far as is known here."""
        return rules.holders(self.config.in_sync, self._followers.durable, lsn)

    def possible_copies(self) -> int:
        """How many copies a record gets that is ordered now (R12)."""
        return min(rules.copies_needed(config) for config in rules.configs_to_satisfy(self.config, self.pending))

    def health(self, now: float) -> Health:
        """As it is told to people: only what was heard of lately is well."""
        context, patience = self._context, self._context.settings.eject_seconds
        votes = {voter.node for voter in self.config.voters if now - self._answered.get(voter, -inf) < patience}
        voteless = tuple(node for node in context.settings.voters if node not in votes)
        begun = rules.is_own(context.log.epoch_at(max(context.committed, context.log.base_lsn)), self.epoch)
        waits = context.committed < context.log.last_lsn and now - self._confirmed_at >= patience
        stalled = waits or not begun or not self.may_deliver(now)
        return Health(voteless, self._followers.unheard(self.config, now), stalled)

    # ---- the lease

    def may_deliver(self, now: float) -> bool:
        """R9: deliveries and reads happen only while a majority of voters keeps others from it."""
        return now < lease_end(self.config, self._granted, self._context.settings.lease_seconds)

    def heartbeat_answer(self, sender: int, message: HeartbeatAnswer) -> None:
        if message.epoch != self.epoch or message.sent <= self._resigned_at:
            return
        voters = self._context.memory.voters
        older = voters.evidence(message.voter, message.life)
        if older is not None:
            self._context.send((sender,), Outdated(older))
            return
        voters.note(message.voter, message.life.start, message.life.position)
        self._forget_answers()
        self._answered[message.voter] = max(message.sent, self._answered.get(message.voter, message.sent))
        if sender not in self._stamps:
            # A voter grants the lease for a heartbeat that proves that it was heard, so that goes out at once.
            self._heartbeat_at = self._now
        self._stamps[sender] = max(message.stamp, self._stamps.get(sender, message.stamp))
        if message.granted:
            self._granted[message.voter] = max(message.sent, self._granted.get(message.voter, message.sent))
        if message.voter in self.config.voters:
            self._strangers.pop(sender, None)
        elif sender in self._context.settings.voters:
            self._strangers[sender] = message.voter

    def _forget_answers(self) -> None:
        """Those of stores that voters had before, when there are many."""
        if len(self._answered) > 2 * GROUP_VOTERS_MAX:
            for answers in (self._answered, self._granted):
                for voter in [each for each in answers if each not in self.config.voters]:
                    del answers[voter]

    def _send_heartbeat(self, now: float) -> None:
        self._heartbeat_at = now + self._context.settings.heartbeat_seconds
        if self._is_resigned(now):
            # Each heartbeat would be a new lease.
            return
        log, settings = self._context.log, self._context.settings
        if log.durable_lsn == log.last_lsn:
            self._disk_moved_at = now
        if self._context.committed == log.last_lsn:
            self._confirmed_at = now
        if now - self._disk_moved_at > settings.stuck_seconds:
            # The own disk stands still: whoever can write should take over.
            return
        echoes = tuple(sorted(self._stamps.items()))
        committed, known = self._context.committed, self._known()
        beat = Heartbeat(
            self.epoch, now, self.may_deliver(now), committed, log.last_lsn, self.config, echoes, known
        )  # fmt: skip
        self._context.send(settings.audience, beat)

    def _known(self) -> Known:
        """Who follows, in which start, and what is committed and on its disk: for the voters to remember."""
        context, memory, followers = self._context, self._context.memory, self._followers
        memory.members.note(context.replica, context.life.start, context.committed)
        for replica in followers.replicas:
            memory.members.reached(replica, min(followers.durable.get(replica, 0), context.committed))
        return memory.told(self.config, followers.replicas)

    # ---- stepping down

    def hand_over(self, now: float) -> None:
        """Let a backup lead that has all of the log. The lease is given back first, and from then on nothing that was
        granted before counts: so the other one may have it at once. If nobody follows, this one goes on after a while.
        """
        self._now = now
        context = self._context
        successor = self._followers.successor(self.config, context.log.last_lsn)
        settled = context.committed == context.log.last_lsn and self.pending is None
        if successor is None or not settled or self._is_resigned(now):
            return
        self._resigned_at = now
        self._granted.clear()
        context.send(context.settings.voters, Resigned(self.epoch, now))
        context.send((successor,), Stand(self.epoch))

    def _is_resigned(self, now: float) -> bool:
        return now - self._resigned_at < _RESIGNED_LEASES * self._context.settings.lease_seconds

    # ---- the in-sync set

    def register_answer(self, sender: int, message: Promise | Accepted | Refuse, now: float) -> None:
        self._now = now
        self._context.send_all(self._change.received(sender, message, now))
        self._settle_change()

    def _next_config(self, found: GroupConfig) -> GroupConfig | None:
        """The change function: what to propose now that this value was found."""
        if found not in (self.config, self.pending):
            return None
        if not rules.must_repeat(self.pending, found):
            self.pending = self._wanted(self._now)
            self._advance()
        return self.pending

    def _wanted(self, now: float) -> GroupConfig | None:
        following = self._followers.wanted(self.config, now)
        if following is None and self._strangers:
            following = self.config.towards_voter(min(self._strangers.values()))
        return following

    def _settle_change(self) -> None:
        found = self._change.outcome
        if found is None or self._change.busy:
            return
        self._change.outcome = None
        if found == self.pending:
            self.config, self.pending = found, None
            self.changes += 1
            self._admission.joined(found)
            self._strangers = {node: voter for node, voter in self._strangers.items() if voter not in found.voters}
            self._advance()
            if self._strangers:
                # Between the two steps there is a voter less: not for longer than it takes.
                self._change_if_wanted(self._now)
        elif found != self.config:
            # Only another primary writes anything else. What is pending stays so: nothing commits here any more.
            self.trigger = Trigger.HIGHER_EPOCH

    # ---- time

    def tick(self, now: float) -> None:
        self._now = now
        if now >= self._heartbeat_at:
            self._send_heartbeat(now)
            if not self._change_if_wanted(now):
                self._admission.begin(self._followers.near(self.config, now), now)
        if now >= self._admission.next_deadline():
            self._admission.tick(now)
            self._advance()
        self._context.send_all(self._change.tick(now))
        self._settle_change()

    def _change_if_wanted(self, now: float) -> bool:
        """True when a change is under way."""
        if not self._change.busy and self._wanted(now) is not None:
            self._context.send_all(self._change.start(self._next_config, now))
        return self._change.busy

    def next_deadline(self) -> float:
        change, deadline = self._change.next_deadline(), min(self._heartbeat_at, self._admission.next_deadline())
        return deadline if change is None else min(deadline, change)


def _first_words(config: GroupConfig) -> bytes:
    """What the first record of an epoch says; what an operator has forced is on record for ever."""
    if config.unclean_epoch != config.epoch:
        return b""
    return f"promoted uncleanly behind record {config.unclean_lsn}".encode()


def _pieces(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Cut to what one ORDER may carry; a single record may be larger."""
    begin = size = 0
    for place, record in enumerate(records):
        inline = len(record.inline) + (0 if record.reference is not None else len(record.data))
        if place > begin and (place - begin == ORDER_ENTRIES_MAX or size + inline > ORDER_BYTES_MAX):
            yield records[begin:place]
            begin, size = place, 0
        size += inline
    if begin < len(records):
        yield records[begin:]
