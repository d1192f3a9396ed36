"""One member of a group: a switchboard of roles. Events go in, effects come out; the log is a port.

What is of an earlier epoch than the promised one is refused here, for all roles (R1); what is of a later one
makes any role a follower (R7). The ways between roles are in `roles`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tocsin.cluster import lives
from tocsin.cluster.proposer import Proposer
from tocsin.cluster.register import BackOff, RegisterChange
from tocsin.cluster.register_events import Received
from tocsin.cluster.register_messages import Accepted, Heartbeat, HeartbeatAnswer, Outdated, Promise, Refuse
from tocsin.replication import rules
from tocsin.replication.backup import Backup
from tocsin.replication.catch_up import CatchUp
from tocsin.replication.context import Context, Unsafe
from tocsin.replication.events import (
    Alarm,
    ChunkStaged,
    DataArrived,
    Effect,
    Event,
    HandOver,
    LogProgress,
    LogRead,
    PromotedUncleanly,
    Propose,
    RoleChanged,
    SnapshotInstalled,
    SnapshotRead,
    SnapshotRefused,
    Tick,
)
from tocsin.replication.log import GroupLog
from tocsin.replication.messages import (
    Acked,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    GroupMessage,
    Nack,
    Order,
    SnapshotChunk,
    SnapshotWanted,
    Stand,
)
from tocsin.replication.primary import Primary
from tocsin.replication.promotion import Promotion
from tocsin.replication.roles import TRANSITIONS, Role, Trigger
from tocsin.replication.serving import Serving
from tocsin.replication.settings import GroupSettings


class Stopped:
    """Nothing is done any more, but for keeping promises."""

    trigger: Trigger | None = None


RoleState: TypeAlias = Backup | CatchUp | Promotion | Primary | Stopped


class Member:
    def __init__(
        self,
        settings: GroupSettings,
        node: int,
        boot: int,
        log: GroupLog,
        chance: Callable[[], float],
        now: float,
        committed: int = 0,
    ) -> None:
        """`committed`: what is known to be committed from the start, because a snapshot covers it."""
        self._context = Context(settings, node, boot, log, chance)
        self._context.restart_behind(committed)
        self._serving = Serving(self._context)
        # One proposer for all rounds of this life: their ballots rise.
        self._change = RegisterChange(
            node, boot, settings.voters, settings.round_seconds, chance, self._context.memory
        )  # fmt: skip
        self._back_off = BackOff(chance)
        self._fence: tuple[int, int] | None = None
        """(candidate, epoch) that waits for its promise to be durable."""
        self._forced = False
        """An operator wants this member to lead, whatever it lacks (R13)."""
        self.role = Role.FOLLOWER
        behind = settings.rank(node) * settings.start_seconds
        self.state: RoleState = Backup(self._context, log.promised, 0, now, self._patience(behind))
        self._handlers: dict[type, Callable[[int, object, float], None]] = self._message_handlers()

    # ---- what others may ask

    @property
    def epoch(self) -> int:
        return self._context.log.promised

    @property
    def committed(self) -> int:
        return self._context.committed

    @property
    def primary(self) -> Primary | None:
        return self.state if isinstance(self.state, Primary) else None

    def may_deliver(self, now: float) -> bool:
        return isinstance(self.state, Primary) and self.state.may_deliver(now)

    def next_deadline(self) -> float:
        return float("inf") if isinstance(self.state, Stopped) else self.state.next_deadline()

    def force(self) -> None:
        """When nobody leads, be promoted without being in sync. Who hears a primary before that forgets it again."""
        self._forced = True

    # ---- events

    def handle(self, event: Event, now: float) -> list[Effect]:
        try:
            self._dispatch(event, now)
            self._follow_trigger(now)
        except Unsafe as unsafe:
            self._context.out.append(Alarm(str(unsafe)))
            self._enter(Trigger.UNSAFE, now)
        out, self._context.out = self._context.out, []
        return out

    def _dispatch(self, event: Event, now: float) -> None:
        match event:
            case Received():
                self._receive(event.sender, event.message, now)
            case Tick():
                if not isinstance(self.state, Stopped):
                    self.state.tick(now)
            case LogProgress():
                self._log_progress(now)
            case DataArrived():
                self._data_arrived(event, now)
            case Propose():
                assert isinstance(self.state, Primary), "only a primary orders records"
                self.state.propose(event.records)
            case HandOver():
                if isinstance(self.state, Primary):
                    self.state.hand_over(now)
            case LogRead():
                self._serving.log_read(event)
            case SnapshotRead():
                self._serving.snapshot_read(event)
            case ChunkStaged() | SnapshotRefused() | SnapshotInstalled():
                self._snapshot_progress(event, now)

    def _snapshot_progress(self, event: ChunkStaged | SnapshotRefused | SnapshotInstalled, now: float) -> None:
        if not isinstance(self.state, CatchUp):
            return
        match event:
            case ChunkStaged():
                self.state.staged(event, now)
            case SnapshotRefused():
                self.state.refused(event, now)
            case SnapshotInstalled():
                self.state.installed(event.lsn)

    def _log_progress(self, now: float) -> None:
        self._context.look_at_store()
        self._answer_fence()
        match self.state:
            case Backup():
                self.state.log_progress()
            case Promotion() | Primary():
                self.state.log_progress(now)

    def _data_arrived(self, event: DataArrived, now: float) -> None:
        if isinstance(self.state, Primary):
            return
        self._context.pool.put(event.reference, event.data)
        if isinstance(self.state, Backup):
            self.state.data_arrived(event.reference, now)

    # ---- messages

    def _message_handlers(self) -> dict[type, Callable[[int, object, float], None]]:
        handlers: dict[type, object] = {
            Heartbeat: self._heartbeat,
            Order: self._order,
            Fetched: self._fetched,
            Acked: self._acked,
            Nack: self._nack,
            Fence: self._fenced_by,
            Fenced: self._fenced,
            HeartbeatAnswer: self._heartbeat_answer,
            Promise: self._register_answer,
            Accepted: self._register_answer,
            Refuse: self._register_answer,
            SnapshotChunk: self._snapshot_chunk,
            Stand: self._stand,
            Outdated: self._outdated,
            Fetch: lambda sender, message, now: self._serving.fetch(sender, message),
            SnapshotWanted: lambda sender, message, now: self._serving.snapshot_wanted(sender, message),
        }
        return handlers  # type: ignore[return-value]

    def _receive(self, sender: int, message: GroupMessage, now: float) -> None:
        if isinstance(self.state, CatchUp) and self.state.installing:
            # The log is between two states; whatever this is, it comes again.
            return
        handler = self._handlers.get(type(message))
        if handler is not None:
            handler(sender, message, now)

    def _follows(self, sender: int, epoch: int, now: float) -> bool:
        """Whether a message of a primary is for this member to take; a later epoch is begun here."""
        log = self._context.log
        if isinstance(self.state, Stopped):
            return False
        if rules.is_stale(epoch, log.promised):
            self._context.send((sender,), Nack(log.promised))
            return False
        if epoch > log.promised:
            log.promise(epoch)
            self._enter(Trigger.HIGHER_EPOCH, now, sender)
        elif isinstance(self.state, Backup) and (self.state.primary, self.state.epoch) != (sender, epoch):
            self.state = Backup(self._context, epoch, sender, now, self._patience())
        return isinstance(self.state, Backup | CatchUp)

    def _heartbeat(self, sender: int, message: Heartbeat, now: float) -> None:
        if sender != self._context.node and self._follows(sender, message.epoch, now):
            self._back_off.reset()
            self._forced = self._forced and not message.leased
            if isinstance(self.state, Backup):
                self.state.heartbeat(message, now)

    def _order(self, sender: int, message: Order, now: float) -> None:
        if self._follows(sender, message.epoch, now) and isinstance(self.state, Backup):
            self.state.order(message, now)

    def _fetched(self, sender: int, message: Fetched, now: float) -> None:
        if isinstance(self.state, Promotion):
            if message.epoch == self.state.epoch:
                self.state.fetched(sender, message, now)
        elif self._follows(sender, message.epoch, now) and isinstance(self.state, Backup):
            self.state.fetched(message, now)

    def _acked(self, sender: int, message: Acked, now: float) -> None:
        if isinstance(self.state, Primary):
            self.state.acked(sender, message, now)

    def _nack(self, sender: int, message: Nack, now: float) -> None:
        """Somebody has promised a later epoch: this one is over."""
        log = self._context.log
        if isinstance(self.state, Primary | Promotion) and message.promised > log.promised:
            log.promise(message.promised)
            self._give_way(now)

    def _give_way(self, now: float) -> None:
        """This member has promised a later epoch than before (R7)."""
        state = self.state
        if isinstance(state, Primary | Promotion) and rules.still_ours(state.epoch, self._context.log.promised):
            return
        if not isinstance(state, Stopped):
            self._enter(Trigger.HIGHER_EPOCH, now)

    def _fenced_by(self, sender: int, message: Fence, now: float) -> None:
        log = self._context.log
        if sender == self._context.node:
            return
        if rules.is_stale(message.epoch, log.promised):
            self._context.send((sender,), Nack(log.promised))
            return
        if message.epoch > log.promised:
            log.promise(message.epoch)
            self._give_way(now)
        self._fence = (sender, message.epoch)
        self._answer_fence()

    def _answer_fence(self) -> None:
        """The promise must be durable, and so must the log whose end is told."""
        log = self._context.log
        if self._fence is None or log.durable_lsn != log.last_lsn:
            return
        candidate, epoch = self._fence
        if log.durable_promise >= epoch:
            self._fence = None
            if log.promised == epoch:
                self._context.send((candidate,), self._told_end(epoch))

    def _told_end(self, epoch: int) -> Fenced:
        context = self._context
        return Fenced(epoch, context.replica, context.log_end(), context.life)

    def _fenced(self, sender: int, message: Fenced, now: float) -> None:
        if isinstance(self.state, Promotion):
            self.state.fenced(message, now)

    def _heartbeat_answer(self, sender: int, message: HeartbeatAnswer, now: float) -> None:
        if isinstance(self.state, Primary):
            self.state.heartbeat_answer(sender, message)

    def _register_answer(self, sender: int, message: Promise | Accepted | Refuse, now: float) -> None:
        if isinstance(self.state, Promotion):
            self.state.received(sender, message, now)
        elif isinstance(self.state, Primary):
            self.state.register_answer(sender, message, now)

    def _stand(self, sender: int, message: Stand, now: float) -> None:
        state = self.state
        if isinstance(state, Backup) and (state.primary, state.epoch) == (sender, message.epoch):
            state.stand()

    def _outdated(self, sender: int, message: Outdated, now: float) -> None:
        """R16. A primary has shown what it has to a majority, and who is forced has been told to go on as it is."""
        context, seen = self._context, message.seen
        if self.primary is not None or self._forced or seen.replica != context.replica:
            return
        if lives.is_older_copy(context.life, seen):
            context.renounce(seen)
            if isinstance(self.state, Promotion):
                self.state.renounced()

    def _snapshot_chunk(self, sender: int, message: SnapshotChunk, now: float) -> None:
        if isinstance(self.state, CatchUp):
            self.state.chunk(sender, message, now)

    # ---- roles

    def _patience(self, extra: float = 0.0) -> float:
        """How long to wait for a primary: at least a lease, later for a higher rank, never all at once."""
        context, settings = self._context, self._context.settings
        rank = settings.rank(context.node) * settings.rank_seconds
        return settings.lease_seconds + extra + rank + settings.rank_seconds * context.chance()

    def _follow_trigger(self, now: float) -> None:
        trigger = self.state.trigger
        if trigger is not None:
            self._enter(trigger, now)

    def _enter(self, trigger: Trigger, now: float, primary: int = 0) -> None:
        before, old = self.role, self.state
        self.role = TRANSITIONS[before, trigger]
        if isinstance(old, Primary | Promotion):
            self._change.drop()
        self.state = self._make(old, trigger, now, primary)
        if self.role is not before:
            self._context.out.append(RoleChanged(self.role, self._context.log.promised))

    def _make(self, old: RoleState, trigger: Trigger, now: float, primary: int) -> RoleState:
        context = self._context
        match self.role:
            case Role.STOPPED:
                return Stopped()
            case Role.CANDIDATE:
                return Promotion(context, self._proposer(), now, forced=self._forced)
            case Role.PRIMARY:
                assert isinstance(old, Promotion) and old.config is not None
                self._back_off.reset()
                context.proven = True
                context.memory.settle(old.config)
                context.log.noted(context.life.start)
                if self._forced:
                    self._forced = False
                    context.out.append(PromotedUncleanly(old.config.unclean_lsn, old.missing))
                return Primary(context, old.config, self._change, now)
            case Role.CATCHING_UP:
                assert isinstance(old, Backup)
                return CatchUp(context, old, now)
            case Role.FOLLOWER:
                if isinstance(old, CatchUp) and trigger is not Trigger.HIGHER_EPOCH:
                    primary = old.primary
                return Backup(context, context.log.promised, primary, now, self._pause(old, trigger))

    def _proposer(self) -> Proposer:
        return self._change.proposer

    def _pause(self, old: RoleState, trigger: Trigger) -> float:
        """Before the next try of a candidate: soon when it was unlucky, late when others should go first."""
        if not isinstance(old, Promotion) or trigger is not Trigger.GAVE_UP:
            return self._patience()
        if old.unfit:
            return self._patience(extra=2 * self._context.settings.lease_seconds)
        return old.wait + self._back_off.next() + self._context.settings.rank_seconds * self._context.chance()
