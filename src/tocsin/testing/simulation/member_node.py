"""A simulated node with a member of the group: runs the real machines and does what their effects ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.cluster.register_events import Received, Send
from tocsin.cluster.register_messages import CommitSeen
from tocsin.replication import rules
from tocsin.replication.catch_up import whole_digest
from tocsin.replication.data_pool import digest_of
from tocsin.replication.events import (
    Alarm,
    ChunkStaged,
    Committed,
    DataArrived,
    Effect,
    Event,
    HandOver,
    InstallSnapshot,
    LogProgress,
    LogRead,
    Propose,
    ReadLog,
    ReadSnapshot,
    Record,
    RoleChanged,
    SnapshotInstalled,
    SnapshotRead,
    StageChunk,
    Tick,
)
from tocsin.replication.member import Member
from tocsin.replication.roles import Role
from tocsin.testing.simulation import state as rules_of_state
from tocsin.testing.simulation.log import MemoryLog, SavedState
from tocsin.testing.simulation.state import PUBLISH, AppliedState, head, name_of
from tocsin.testing.simulation.traffic import Confirm, Data, Deliver
from tocsin.testing.simulation.voter_node import VOTER_MESSAGES, VoterNode

if TYPE_CHECKING:
    from tocsin.testing.simulation.world import World

_CHUNK_BYTES = 48
"""So small that even a little state takes several chunks."""
_HELD_MAX = 10_000


class MemberNode(VoterNode):
    def __init__(self, world: World, node: int, store: int) -> None:
        super().__init__(world, node, store)
        self.log = world.make_log(store)
        self.disk_seconds = 0.001
        self.stalled_until = 0.0

    # ---- lives

    def start(self) -> None:
        super().start()
        self.state = AppliedState.load(self.log.saved)
        world = self.world
        self.log.begin(self.boot, world.new_store())
        self.member = Member(
            world.settings, self.node, self.boot, self.log, world.random.random, self.now(), self.state.lsn
        )
        self._tentative: dict[int, int] = {}
        self._shown = 0
        self._held: list[tuple[int, int, int]] = []
        self._staged: list[bytes] = []
        self._flushing = False
        self._wake_at = float("inf")
        self._schedule()

    def stop(self) -> None:
        super().stop()
        self.log = self.log.crashed(self.world.random)
        self.world.primaries.discard(self)

    def lose_disk(self, store: int) -> None:
        assert not self.up
        super().lose_disk(store)
        self.log = self.world.make_log(store)

    # ---- events

    def receive(self, sender: int, message: object) -> None:
        if isinstance(message, Data):
            self._data(message)
            return
        if isinstance(message, VOTER_MESSAGES):
            super().receive(sender, message)
        if isinstance(message, CommitSeen):
            return
        self.handle(Received(sender, message))  # type: ignore[arg-type]

    def hand_over(self) -> None:
        """An operator wants the role elsewhere."""
        self.handle(HandOver())

    def handle(self, event: Event) -> None:
        for effect in self.member.handle(event, self.now()):
            self._perform(effect)
        if self._held and self.member.primary is not None:
            self._confirm(self.member.primary.epoch)
        if self.log.dirty and not self._flushing:
            self._flushing = True
            self.world.after(self._disk_delay(), self, self._flushed, self.log, self.log.pending())
        self._schedule()

    def _disk_delay(self) -> float:
        world = self.world
        stall = max(0.0, self.stalled_until - world.time)
        return stall + self.disk_seconds * (0.5 + world.random.random())

    def _vote_delay(self) -> float:
        """A disk that stands still does so for votes, too."""
        return super()._vote_delay() + max(0.0, self.stalled_until - self.world.time)

    def _flushed(self, log: MemoryLog, count: int) -> None:
        self._flushing = False
        log.flushed(min(count, log.pending()))
        self.handle(LogProgress())

    def _schedule(self) -> None:
        """One timer for each node, set to its earliest deadline."""
        deadline = self.member.next_deadline()
        if deadline == float("inf"):
            return
        when = max(self.clock.world(deadline) + 1e-6, self.world.time)
        if when < self._wake_at:
            self._wake_at = when
            self.world.after(when - self.world.time, self, self._woken, when)

    def _woken(self, when: float) -> None:
        if when != self._wake_at:
            return
        self._wake_at = float("inf")
        if self.now() >= self.member.next_deadline():
            self.handle(Tick())
            if self.member.may_deliver(self.now()):
                self.world.deliver(self, Deliver(self.member.epoch))
        else:
            self._schedule()

    # ---- effects

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send():
                self.send(effect)
            case Committed():
                self._committed(effect)
            case RoleChanged():
                self._role_changed(effect)
            case ReadLog():
                self.world.after(self._disk_delay(), self, self._read_log, effect)
            case ReadSnapshot():
                self.world.after(self._disk_delay(), self, self._read_snapshot, effect)
            case StageChunk():
                self._staged = [*self._staged[: effect.index], bytes(effect.data)]
                self.world.after(self._disk_delay(), self, self.handle, ChunkStaged(effect.lsn, effect.index))
            case InstallSnapshot():
                saved = SavedState(effect.lsn, effect.epoch, b"".join(self._staged))
                self.world.after(self._disk_delay(), self, self._install, saved)
            case Alarm():
                self.world.checkers.alarmed(self, effect.text)

    def _read_log(self, effect: ReadLog) -> None:
        self.handle(LogRead(effect.request, self.log.read(effect.first, effect.last)))

    def _read_snapshot(self, effect: ReadSnapshot) -> None:
        saved = self.log.saved
        if saved.lsn == 0 or effect.lsn not in (0, saved.lsn):
            self.handle(SnapshotRead(effect.request, effect.lsn, 0, 0, b"", b""))
            return
        content = saved.content
        chunks = [content[at : at + _CHUNK_BYTES] for at in range(0, len(content), _CHUNK_BYTES)]
        whole = whole_digest([digest_of(chunk) for chunk in chunks])
        if effect.index < len(chunks):
            data = chunks[effect.index]
            self.handle(SnapshotRead(effect.request, saved.lsn, saved.epoch, len(chunks), whole, data))

    def _install(self, saved: SavedState) -> None:
        self.log.install(saved)
        self.state = AppliedState.load(saved)
        self.world.stats.snapshots += 1
        self.world.checkers.installed(self)
        self.handle(SnapshotInstalled(saved.lsn))

    # ---- the state above the log

    def _role_changed(self, effect: RoleChanged) -> None:
        self.world.checkers.role_changed(self, effect)
        if effect.role is not Role.PRIMARY:
            self.world.primaries.discard(self)
            return
        self.world.primaries.add(self)
        self.world.stats.promotions += 1
        self._held, self._shown = [], self.log.last_lsn
        self._tentative = dict(self.state.producers)
        for lsn in range(self.state.lsn + 1, self.log.last_lsn + 1):
            producer, sequence = name_of(self.log.entry(lsn))
            if producer:
                self._tentative[producer] = sequence

    def _data(self, message: Data) -> None:
        primary = self.member.primary
        if primary is None:
            self.handle(DataArrived(message.reference, message.data))
            return
        producer, sequence = message.producer, message.sequence
        last = self._tentative.get(producer, 0)
        if rules_of_state.is_next(sequence, last):
            enough = rules.accepts_publish(primary.possible_copies(), self.world.min_copies)
            if enough and primary.has_room:
                self._tentative[producer] = sequence
                record = Record(PUBLISH, head(producer, sequence), message.data, message.reference)
                self.handle(Propose([record]))
        elif sequence <= self.state.producers.get(producer, 0) and not self._held:
            self.world.confirm(self, Confirm(primary.epoch, producer, sequence, 0, 1))

    def _committed(self, effect: Committed) -> None:
        checkers = self.world.checkers
        checkers.committed(self, effect.lsn)
        primary = self.member.primary
        for lsn in range(self.state.lsn + 1, effect.lsn + 1):
            entry = self.log.entry(lsn)
            self.state.apply(lsn, entry)
            checkers.applied(self, lsn)
            producer, sequence = name_of(entry)
            if primary is not None and producer and len(self._held) < _HELD_MAX:
                self._held.append((lsn, producer, sequence))
        if primary is not None:
            self._confirm(primary.epoch)
        self._take_snapshot()

    def _confirm(self, epoch: int) -> None:
        """In order; R12: a destination that wants two copies waits for them, also when one would do."""
        primary = self.member.primary
        assert primary is not None
        while self._held:
            lsn, producer, sequence = self._held[0]
            copies = primary.copies_of(lsn)
            if copies < self.world.min_copies:
                return
            del self._held[0]
            self.world.checkers.confirmed(lsn, producer, sequence, copies)
            self.world.confirm(self, Confirm(epoch, producer, sequence, lsn, copies))

    def _take_snapshot(self) -> None:
        world = self.world
        due = self.state.lsn - self.log.saved.lsn >= world.snapshot_every
        if due and self.state.lsn <= self.log.durable_lsn:
            self.log.save(self.state.save(self.log.epoch_at(self.state.lsn)), world.log_keep)
