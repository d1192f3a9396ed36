"""The follower: stores what the primary orders, acknowledges what is on disk, asks for what is missing."""

from __future__ import annotations

from tocsin.cluster.group_config import GroupConfig
from tocsin.cluster.register_messages import Heartbeat
from tocsin.replication.context import Context
from tocsin.replication.log import Entry
from tocsin.replication.merging import LogPuller, Merged
from tocsin.replication.messages import Acked, Fetched, Order, Reference
from tocsin.replication.roles import Trigger

_ORDERS_WAITING_MAX = 64
"""ORDERs that came too early or whose payloads are on their way; more are fetched instead."""


class Backup:
    """Follows one primary in one epoch. Without a primary (node 0) it waits for one."""

    def __init__(self, context: Context, epoch: int, primary: int, now: float, patience: float) -> None:
        self._context, self.epoch, self.primary = context, epoch, primary
        self.trigger: Trigger | None = None
        self.hint: GroupConfig | None = None
        """The configuration as the primary last told it; good for guessing only."""
        self.needed = 0
        """With TOO_OLD: the lowest LSN of a snapshot that is of use."""
        self._puller = LogPuller(context, epoch, primary)
        self._waiting: dict[int, Order] = {}
        self._missing: set[Reference] = set()
        self._goal = 0
        """Where the primary's log ends, as far as is known."""
        self._primary_commit = 0
        self._acked = 0
        self._fetch_at: float | None = None
        self._patience = patience
        self._silent_at = now + patience

    # ---- from the primary

    def heartbeat(self, message: Heartbeat, now: float) -> None:
        if message.leased:
            self._silent_at = now + self._patience
        self.hint = message.config
        self._goal = max(self._goal, message.last)
        self._note_commit(message.commit)
        self._acknowledge(again=True)
        self._prove(message.commit)
        self._context.look_for_start(message.known)
        if self._puller.matched < self._goal:
            self._want_fetch(now)

    def _prove(self, commit: int) -> None:
        """A commit of the primary's own epoch says that all before it is committed: who has that lacks nothing."""
        log = self._context.log
        if log.base_lsn <= commit <= self._puller.matched and log.epoch_at(commit) == self.epoch:
            self._context.proven = True

    def order(self, message: Order, now: float) -> None:
        last = message.first + len(message.entries) - 1
        self._goal = max(self._goal, last)
        if last > self._puller.matched:
            self._take(message, now)
        self._note_commit(message.commit)

    def fetched(self, message: Fetched, now: float) -> None:
        matched = self._puller.matched
        merged = self._puller.fetched(message)
        if merged is Merged.TOO_OLD:
            self.trigger, self.needed = Trigger.TOO_OLD, message.base
            return
        if merged is Merged.TAKEN:
            self._retry_waiting(now)
        self._note_commit(message.commit)
        if self._puller.matched < self._goal and not self._waiting:
            progress = self._puller.matched > matched or merged is Merged.MISMATCH
            self._want_fetch(now, at_once=progress)

    def stand(self) -> None:
        """The primary steps down for this member: no need to wait until it is silent."""
        self.trigger = Trigger.SILENCE

    def data_arrived(self, reference: Reference, now: float) -> None:
        if reference in self._missing:
            self._retry_waiting(now)

    # ---- storing

    def _take(self, message: Order, now: float) -> None:
        entries, rest = self._resolve(message)
        merged = self._puller.merge(message.first, message.previous_epoch, entries)
        if merged is Merged.TAKEN:
            for given in message.entries[: len(entries)]:
                if given.reference is not None:
                    self._context.pool.drop(given.reference)
            if rest is not None:
                self._keep(rest, now)
            else:
                self._retry_waiting(now)
        elif merged is Merged.GAP:
            self._keep(message, now)
        else:
            self._want_fetch(now, at_once=True)

    def _resolve(self, message: Order) -> tuple[list[Entry], Order | None]:
        """The records whose payloads are here, up to the first one that is missing, and the rest."""
        entries: list[Entry] = []
        for number, given in enumerate(message.entries):
            parts = [given.inline]
            if given.reference is not None:
                data = self._context.pool.get(given.reference)
                if data is None:
                    self._missing.add(given.reference)
                    previous = message.epoch if number else message.previous_epoch
                    rest = message.entries[number:]
                    return entries, Order(message.epoch, previous, message.first + number, message.commit, rest)
                parts.append(data)
            entries.append(Entry(message.epoch, given.kind, parts))
        return entries, None

    def _keep(self, message: Order, now: float) -> None:
        if len(self._waiting) < _ORDERS_WAITING_MAX:
            self._waiting[message.first] = message
        self._want_fetch(now)

    def _retry_waiting(self, now: float) -> None:
        """Something was missing and has come: the orders that waited for it may fit now."""
        self._missing.clear()
        due = [first for first in self._waiting if first <= self._context.log.last_lsn + 1]
        for first in sorted(due):
            message = self._waiting.pop(first, None)
            if message is not None and first + len(message.entries) - 1 > self._puller.matched:
                self._take(message, now)

    # ---- asking

    def _want_fetch(self, now: float, *, at_once: bool = False) -> None:
        if self.primary == 0:
            return
        patient = max(now + self._context.settings.fetch_delay_seconds, self._puller.ask_again_at())
        due = now if at_once else patient
        if self._fetch_at is None or due < self._fetch_at:
            self._fetch_at = due

    def tick(self, now: float) -> None:
        if now >= self._silent_at:
            self.trigger = Trigger.SILENCE
        elif self._fetch_at is not None and now >= self._fetch_at:
            self._fetch_at = None
            if self._puller.matched < self._goal:
                self._waiting.clear()
                self._missing.clear()
                self._puller.ask(now)
                self._want_fetch(now)

    def next_deadline(self) -> float:
        return self._silent_at if self._fetch_at is None else min(self._silent_at, self._fetch_at)

    # ---- telling

    def log_progress(self) -> None:
        self._acknowledge(again=False)

    def _acknowledge(self, *, again: bool) -> None:
        """What is on disk and known to be the primary's; repeated with every heartbeat."""
        log = self._context.log
        if self.primary == 0 or log.durable_promise < self.epoch:
            return
        lsn = min(self._puller.matched, log.durable_lsn)
        if lsn > self._acked or again:
            self._acked = max(self._acked, lsn)
            self._context.send((self.primary,), Acked(self.epoch, self._context.replica.store, lsn, self._context.life))

    def _note_commit(self, commit: int) -> None:
        """What the primary has committed is committed here as far as this log is known to be its log."""
        self._primary_commit = max(self._primary_commit, commit)
        self._context.commit(min(self._primary_commit, self._puller.matched), 0)
