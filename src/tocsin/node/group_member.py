"""One member of a message manager group on its node: runs the machines of replication, keeps the state, serves it.

Whoever drives it calls an event method and then `pump`, which moves messages, records and disk jobs until nothing is
left to do now; then it sends what `take_out` gives. A backup applies what the group has committed; a primary serves
once its first record is committed and applied, so it begins with everything that may have been confirmed. When it is
primary no more, its message manager may know things that never happen: that state is thrown away and built again from
the newest snapshot and the log, both of which have only what the group agreed on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from tocsin.bus.datagram import Stream
from tocsin.cluster.commands import Publish
from tocsin.cluster.envelope import Commands, GroupBytes, GroupStatus, MemberRole
from tocsin.cluster.envelope import decode as decode_envelope
from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.cluster.register_events import Received, Send
from tocsin.journal.jobs import WasCut, WriteJob, Written
from tocsin.message_manager.machine import MessageManager, Settings
from tocsin.model.errors import JournalDamaged, ProtocolError
from tocsin.model.limits import APPLY_BYTES_PER_TURN, APPLY_RECORDS_PER_TURN, GROUP_STATUS_SECONDS, SNAPSHOT_EVERY_BYTES
from tocsin.node.group_journal import GroupJournal, References
from tocsin.node.group_log import HostedLog
from tocsin.node.group_primary import ServingPrimary, reference_to
from tocsin.node.group_store import GroupStore, StoreSettings
from tocsin.node.outgoing import Outgoing, envelope_to, group_messages
from tocsin.node.standby import Standby
from tocsin.node.voter_host import TO_VOTER, VoterHost
from tocsin.node.workers import Workers
from tocsin.replication.backup import Backup
from tocsin.replication.codec import decode as decode_group
from tocsin.replication.events import (
    Alarm,
    Committed,
    DataArrived,
    Effect,
    Event,
    LogProgress,
    LogRead,
    Propose,
    ReadLog,
    RoleChanged,
    Tick,
)
from tocsin.replication.journal_log import LogDone
from tocsin.replication.log import Entry
from tocsin.replication.member import Member
from tocsin.replication.messages import GroupMessage
from tocsin.replication.primary import Primary
from tocsin.replication.roles import Role
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.datagrams import group_out
from tocsin.runtime.ports import Buffer, Clock, Files, Random

_TURNS_PER_PUMP = 16


class GroupMember:
    def __init__(
        self,
        group: int,
        settings: GroupSettings,
        node: int,
        boot: int,
        files: Files,
        clock: Clock,
        random: Random,
        chance: Callable[[], float],
        manager: Settings,
        segment_bytes: int,
        snapshot_bytes: int = SNAPSHOT_EVERY_BYTES,
    ) -> None:
        """Opens the member's files; `boot` has never been used by this node before. `chance` is from 0 to 1."""
        self.group, self.node, self._clock, self._settings = group, node, clock, settings
        self._snapshot_bytes = snapshot_bytes
        self._references = References()
        self._opening = StoreSettings(files, segment_bytes, random, manager, self._make_journal)
        self._log = HostedLog()
        self._store = GroupStore(self._opening, clock.now())
        self._log.replace(self._store.opened.log, self._store.journal)
        self._standby: Standby | None = self._store.standby
        self.member = Member(
            settings, node, boot, self._log, chance, clock.now(), self._store.standby.applied
        )  # fmt: skip
        self.voter = VoterHost(group, settings, node, files, clock, random) if node in settings.voters else None
        self.serving: ServingPrimary | None = None
        self._serve_behind = 0
        self.alarm: str | None = None
        self.malformed = 0
        self._held_back = False
        self._reading = False
        self._workers: Workers | None = None
        self._own: deque[GroupMessage] = deque()
        self._out: list[Outgoing] = []
        self._upkeep_due = True
        self._free_bytes = 0
        self._status_at = clock.now()
        self._told: tuple[object, ...] = ()

    def _make_journal(self) -> GroupJournal:
        return GroupJournal(self._log, self._references, self._has_room)

    def _has_room(self) -> bool:
        primary = self.member.primary
        return primary is not None and primary.has_room

    def attach(self, workers: Workers, wake: Callable[[], None]) -> None:
        """`workers` do the disk's work, commits with `write`; `wake` asks for a `pump` soon."""
        self._workers, self._wake = workers, wake
        self._store.attach(workers, self._progress)
        if self.voter is not None:
            self.voter.attach(workers, wake)

    def write(self, job: WriteJob) -> Written:
        """A group commit, wherever the workers do it."""
        done = self._store.opened.work.perform(job)
        assert isinstance(done, Written)
        return done

    def _progress(self) -> None:
        self._upkeep_due = True
        self._wake()

    # ---- what others may ask

    @property
    def role(self) -> Role:
        return self.member.role

    @property
    def epoch(self) -> int:
        return self.member.epoch

    @property
    def replica(self) -> Replica:
        return Replica(self.node, self._log.store)

    @property
    def manager(self) -> MessageManager:
        """Whoever has the state now."""
        return self._store.manager

    @property
    def applied(self) -> int:
        """Up to which record the state is; of a primary that serves: what it knows to be committed."""
        return self._standby.applied if self._standby is not None else self.member.committed

    @property
    def config(self) -> GroupConfig | None:
        """The group's configuration, as far as it is known here; only a primary knows for sure."""
        state = self.member.state
        if isinstance(state, Primary):
            return state.config
        hint = state.hint if isinstance(state, Backup) else None
        return hint if hint is not None or self.voter is None else self.voter.config

    @property
    def in_sync(self) -> tuple[int, ...]:
        config = self.config
        return tuple(replica.node for replica in config.in_sync) if config is not None else ()

    @property
    def config_version(self) -> int:
        config = self.config
        return config.version if config is not None else 0

    def status(self) -> GroupStatus:
        config = self.config
        primary = config.primary if config is not None else 0
        return GroupStatus(
            self.epoch,
            self.node if self.serving is not None else primary,
            self._role_told(),
            self.in_sync,
            self._settings.members,
            self.applied,
            self._log.last_lsn,
            len(self.manager.directory.by_id),
            self._store.journal.live_bytes,
            self._free_bytes,
        )

    def _role_told(self) -> MemberRole:
        if self.serving is not None:
            return MemberRole.PRIMARY
        return MemberRole.CATCHING_UP if self.member.role is Role.CATCHING_UP else MemberRole.BACKUP

    # ---- events

    def received(self, sender: int, boot: int, payload: Buffer) -> None:
        """A message of the bus to this group; what cannot be read is counted and dropped."""
        try:
            envelope = decode_envelope(payload)
            message = decode_group(envelope.parts[0]) if isinstance(envelope, GroupBytes) else None
        except ProtocolError:
            self.malformed += 1
            return
        if message is not None:
            self._group_message(sender, message)
        elif isinstance(envelope, Commands):
            self._commanded(sender, boot, envelope, len(payload))

    def _group_message(self, sender: int, message: GroupMessage) -> None:
        if self.voter is not None and isinstance(message, TO_VOTER):
            self.voter.asked(sender, message)
        self._handle(Received(sender, message))

    def _commanded(self, sender: int, boot: int, message: Commands, size: int) -> None:
        """Every member keeps the payloads, so that the primary only has to name them; it alone listens to the rest."""
        if self.serving is not None:
            self.serving.commanded(sender, boot, message, size, self._clock.now())
        elif self.member.primary is None:
            for command in message.commands:
                if isinstance(command, Publish):
                    self._handle(DataArrived(reference_to(command), command.block.data))

    def node_up(self, node: int, boot: int) -> None:
        """The bus hears a client manager, perhaps again."""
        if self.serving is not None:
            self.serving.tell_if_broken(node, self._clock.now())

    def node_gone(self, node: int, boot: int) -> None:
        """The bus does not hear a client manager any more, or another incarnation of it."""
        if self.serving is not None:
            self.serving.links.forget(node)

    def lost_sync(self, node: int) -> None:
        """Something that a client manager sent to the group will never come."""
        if self.serving is not None:
            self.serving.give_up_link(node, self._clock.now())

    def hold_back(self, blocked: bool) -> None:
        """While the bus takes nothing, no new answers are made for it."""
        self._held_back = blocked

    def tick(self) -> None:
        now = self._clock.now()
        self._upkeep_due = True
        if now >= self.member.next_deadline():
            self._handle(Tick())
        if self.serving is not None and self.member.may_deliver(now):
            self.serving.manager.tick(now, self._clock.wall())
        if now >= self._status_at:
            self._tell_status(now)

    def _tell_status(self, now: float) -> None:
        assert self._workers is not None
        self._status_at = now + GROUP_STATUS_SECONDS
        status = self.status()
        self._told = status.role, status.epoch, status.in_sync
        self._out.append(envelope_to(group_out(self.group), status, Stream.CONTROL))
        self._workers.upkeep(self._opening.files.free_bytes, self._measured)

    def _measured(self, free_bytes: int) -> None:
        self._free_bytes = free_bytes

    def next_deadline(self) -> float:
        deadline = min(self.member.next_deadline(), self._status_at)
        if self.serving is not None and self.member.may_deliver(self._clock.now()):
            work = self.serving.manager.next_deadline()
            deadline = min(deadline, work) if work is not None else deadline
        return deadline

    # ---- the machine

    def _handle(self, event: Event) -> None:
        for effect in self.member.handle(event, self._clock.now()):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._out += group_messages(self.group, self.node, effect)
                if self.node in effect.receivers:
                    self._own.append(effect.message)
            case Committed():
                self._committed(effect)
            case RoleChanged():
                self._role_changed(effect)
            case ReadLog():
                self._read_log(effect)
            case Alarm():
                self.alarm = effect.text

    def _committed(self, effect: Committed) -> None:
        serving = self.serving
        if serving is not None:
            ledger = serving.manager.ledger
            self._journal_of(serving).committed(effect.lsn)
            ledger.copies = effect.copies
            serving.manager.durable(self._clock.now(), self._clock.wall())

    @staticmethod
    def _journal_of(serving: ServingPrimary) -> GroupJournal:
        journal = serving.manager.ledger.journal
        assert isinstance(journal, GroupJournal)
        return journal

    def _role_changed(self, effect: RoleChanged) -> None:
        self._upkeep_due = True
        if effect.role is Role.PRIMARY:
            self._serve_behind = self._log.last_lsn
        elif self.serving is not None:
            self._throw_state_away()

    # ---- work

    def pump(self) -> bool:
        """Moves everything that can move; True when there is more work than one turn should do."""
        more = False
        for _ in range(_TURNS_PER_PUMP):
            more = self._state_turn()
            moved = self._propose() | self._write_log() | self._talk_to_oneself()
            if not moved:
                break
        if self.voter is not None:
            self.voter.pump()
            self._out += self.voter.take_out()
        self._begin_disk_work()
        if self._told != (self._role_told(), self.epoch, self.in_sync):
            self._tell_status(self._clock.now())
        return more or bool(self._own)

    def _talk_to_oneself(self) -> bool:
        voter = self.voter
        if voter is not None:
            self._own.extend(voter.take_own())
        moved = bool(self._own)
        while self._own:
            self._group_message(self.node, self._own.popleft())
        return moved

    def _state_turn(self) -> bool:
        """The state moves on: a backup applies, a primary serves."""
        more = self._apply() if self._standby is not None else False
        serving = self.serving
        if serving is None:
            return more
        now = self._clock.now()
        if not self._held_back and self.member.may_deliver(now):
            more = serving.run(now, self._clock.wall())
        # Without a lease nothing is begun; what was begun with one may be answered.
        serving.send_replies()
        self._out += serving.out
        serving.out = []
        return more

    def _propose(self) -> bool:
        if self.serving is None:
            return False
        records = self._journal_of(self.serving).take()
        if records:
            self._handle(Propose(records))
        return bool(records)

    def _write_log(self) -> bool:
        """Gives the log's next job away; True when it was done at once."""
        assert self._workers is not None
        job = self._log.next_job()
        if job is None:
            return False
        if not isinstance(job, WriteJob):
            work = self._store.opened.work
            self._workers.sync(lambda: work.perform(job), self._log_done)
            return False
        at_once = self._workers.write(job, self._log_done)
        if at_once is None:
            return False
        self._log.done(at_once)
        self._handle(LogProgress())
        return True

    def _log_done(self, done: LogDone) -> None:
        if isinstance(done, WasCut):
            self._store.let_go(done.files())
        self._log.done(done)
        self._handle(LogProgress())
        self._progress()

    # ---- a backup's state

    def _apply(self) -> bool:
        """Applies what is committed, as far as it is at hand; True when there is more."""
        standby, log = self._standby, self._log
        assert standby is not None
        size, now, end = 0, self._clock.now(), min(self.member.committed, standby.applied + APPLY_RECORDS_PER_TURN)
        while standby.applied < end and size < APPLY_BYTES_PER_TURN:
            lsn = standby.applied + 1
            entry = log.remembered(lsn)
            if entry is None:
                self._read_behind(standby)
                break
            standby.apply(lsn, entry, now)
            log.forget(lsn)
            size += entry.size()
        if self.member.primary is not None and standby.applied >= self._serve_behind:
            self._serve(standby)
        return standby.applied < self.member.committed and not self._reading

    def _read_behind(self, standby: Standby) -> None:
        """What is not remembered is read from the own disk, a piece at a time."""
        if self._reading:
            return
        self._reading = True

        def done(entries: tuple[Entry, ...] | None) -> None:
            self._reading = False
            if standby is self._standby:
                for entry in entries or ():
                    if standby.applied < self.member.committed:
                        self._log.forget(standby.applied + 1)
                        standby.apply(standby.applied + 1, entry, self._clock.now())
            self._progress()

        first = standby.applied + 1
        if self._read(first, self.member.committed, done) == 0:
            raise JournalDamaged(
                f"Record {first} is committed, but the log on this disk does not have it. Empty the data directory, "
                "and the member is filled by the others."
            )

    def _read(self, first: int, last: int, done: Callable[[tuple[Entry, ...] | None], None]) -> int:
        """Begins to read records and says how many: as many as fit, none when the first is not there."""
        assert self._workers is not None
        store, plan = self._store, self._log.plan_read(first, last)
        self._workers.read(lambda: store.read_log(plan), done)
        return len(plan.locations) + len(plan.unsynced)

    def _read_log(self, effect: ReadLog) -> None:
        def done(entries: tuple[Entry, ...] | None) -> None:
            if entries is None:
                self._read_log(effect)
                return
            self._handle(LogRead(effect.request, entries))
            self._wake()

        self._read(effect.first, effect.last, done)

    def _serve(self, standby: Standby) -> None:
        """All that was ever confirmed is in the state."""
        manager = standby.serve(self._store.streams, self._clock.now(), self._clock.wall())
        primary = self.member.primary
        assert primary is not None
        manager.ledger.copies = primary.copies_of(self.member.committed)
        self._standby = None
        self._log.remembers = False
        self._log.forget_all()
        self.serving = ServingPrimary(self.group, primary.epoch, manager, self._references)

    def _throw_state_away(self) -> None:
        """The message manager may have applied what never commits."""
        assert self._workers is not None
        self.serving, self._log.remembers = None, True
        self._references.clear()
        store, opening, now = self._store, self._opening, self._clock.now()
        self._workers.upkeep(lambda: store.load_state(opening, now), lambda standby: self._loaded(store, standby))

    def _loaded(self, store: GroupStore, standby: Any) -> None:
        if store is self._store and self.serving is None:
            self._standby = standby
            store.manager = standby.manager
        self._progress()

    # ---- the disk

    def _begin_disk_work(self) -> None:
        store, manager = self._store, self._store.manager
        for read in manager.take_reads():
            store.reads.begin(read)
        for drop in manager.take_drops():
            store.upkeep.drop_stream(drop)

    def take_out(self) -> list[Outgoing]:
        out, self._out = self._out, []
        return out

    def close(self) -> None:
        self._store.close()
