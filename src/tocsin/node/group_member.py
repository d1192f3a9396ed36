"""One member of a message manager group on its node: runs the machines of replication over its disk and its state.

Whoever drives it calls an event method and then `pump`, which moves messages, records and disk jobs until nothing is
left to do now; then it sends what `take_out` gives. A backup applies what the group has committed; a primary serves
once its first record is committed and applied, so it begins with everything that may have been confirmed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from tocsin.cluster.commands import Publish
from tocsin.cluster.envelope import Commands, GroupBytes, GroupStatus, MemberRole
from tocsin.cluster.envelope import decode as decode_envelope
from tocsin.cluster.group_config import NO_CONFIG, GroupConfig, Replica
from tocsin.cluster.register_events import Received, Send
from tocsin.cluster.register_messages import Heartbeat
from tocsin.journal.jobs import WriteJob, Written
from tocsin.message_manager.machine import MessageManager, Settings
from tocsin.model.errors import BrokenInvariant, ProtocolError
from tocsin.model.faults import FATAL
from tocsin.model.limits import HAND_OVER_SECONDS, SNAPSHOT_EVERY_BYTES
from tocsin.node.group_disk import Entries, GroupDisk, Installed
from tocsin.node.group_journal import GroupJournal, References
from tocsin.node.group_log import HostedLog
from tocsin.node.group_primary import ServingPrimary, reference_to
from tocsin.node.group_state import MemberState
from tocsin.node.group_status import StatusReports
from tocsin.node.group_store import StoreSettings
from tocsin.node.outgoing import Outgoing, group_messages
from tocsin.node.standby import Standby
from tocsin.node.voter_host import TO_VOTER, VoterHost
from tocsin.node.workers import Workers
from tocsin.replication.backup import Backup
from tocsin.replication.codec import decode as decode_group
from tocsin.replication.credible import is_credible
from tocsin.replication.events import (
    Alarm,
    Committed,
    DataArrived,
    Effect,
    Event,
    FoundOlder,
    HandOver,
    InstallSnapshot,
    LogProgress,
    LogRead,
    PromotedUncleanly,
    Propose,
    ReadLog,
    ReadSnapshot,
    RoleChanged,
    StageChunk,
    Tick,
)
from tocsin.replication.member import Member
from tocsin.replication.messages import CopyMessage, GroupMessage
from tocsin.replication.primary import Health, Primary
from tocsin.replication.roles import Role
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.ports import Buffer, Clock, Files, Random
from tocsin.runtime.slewed_clock import SlewedClock

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
        client_managers: Collection[int] = (),
    ) -> None:
        """Opens the member's files; `boot` has never been used by this node before. `chance` is from 0 to 1."""
        self.group, self.node, self._clock, self._settings = group, node, SlewedClock(clock), settings
        self._references, self._log = References(), HostedLog()
        opening = StoreSettings(files, segment_bytes, random, manager, self._make_journal, boot)
        self._disk = GroupDisk(opening, self._log, snapshot_bytes, settings, node, clock)
        applied = self._disk.store.standby.applied
        self.member = Member(settings, node, boot, self._log, chance, clock.now(), applied)
        self._state = MemberState(
            group, node, self.member, self._disk, self._references, self._clock, client_managers
        )  # fmt: skip
        votes = node in settings.voters
        self.voter = VoterHost(group, settings, node, files, clock, random, boot) if votes else None
        self.alarm: str | None = None
        self.older: str | None = None
        """The files were an older copy of this member's: this says how that was noticed."""
        self.promoted_uncleanly: PromotedUncleanly | None = None
        self.malformed = 0
        self._faults = manager.faults
        self._held_back = False
        self._hand_over_until = float("-inf")
        self._own: deque[GroupMessage] = deque()
        self._out: list[Outgoing] = []
        self._reports = StatusReports(group, settings.status_seconds, files, clock)

    def _make_journal(self) -> GroupJournal:
        return GroupJournal(self._log, self._references, self._has_room)

    def _has_room(self) -> bool:
        primary = self.member.primary
        return primary is not None and primary.has_room

    def attach(self, workers: Workers, wake: Callable[[], None]) -> None:
        """`workers` do the disk's work, commits with `write`; `wake` asks for a `pump` soon."""
        self._wake = wake
        self._disk.attach(workers, self)
        self._reports.attach(workers)
        if self.voter is not None:
            self.voter.attach(workers, wake)

    def write(self, job: WriteJob) -> Written:
        """A group commit, wherever the workers do it."""
        return self._disk.write(job)

    def progress(self) -> None:
        self._wake()

    def log_moved(self) -> None:
        self._handle(LogProgress())

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
    def serving(self) -> ServingPrimary | None:
        return self._state.serving

    @property
    def has_state(self) -> bool:
        """Not between two roles, when nothing that it knows counts."""
        return self._state.is_there

    @property
    def manager(self) -> MessageManager:
        """Whoever has the state now."""
        return self._state.manager

    @property
    def committed(self) -> int:
        return self.member.committed

    @property
    def stands_at(self) -> int:
        """The record that the state has applied last; a primary applies what it orders at once."""
        return self._state.stands_at

    @property
    def applied(self) -> int:
        """Up to which record the state is what the group agreed on."""
        return min(self.stands_at, self.member.committed)

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
        return tuple(replica.node for replica in (self.config or NO_CONFIG).in_sync)

    @property
    def config_version(self) -> int:
        return (self.config or NO_CONFIG).version

    def status(self) -> GroupStatus:
        config = self.config or NO_CONFIG
        leading = self.member.primary
        health = leading.health(self._clock.now()) if leading is not None else Health()
        damaged, mended = self._disk.damage
        return GroupStatus(
            epoch=self.epoch,
            primary=self.node if self.serving is not None else config.primary,
            role=self._role_told(),
            in_sync=self.in_sync,
            members=self._settings.members,
            committed=self.applied,
            last=self._log.last_lsn,
            destinations=len(self.manager.directory.by_id),
            live_bytes=self._disk.store.journal.live_bytes,
            free_bytes=self._reports.free_bytes,
            unclean_epoch=config.unclean_epoch,
            unclean_lsn=config.unclean_lsn,
            damaged=damaged,
            mended=mended,
            stalled=health.stalled,
            voteless=health.voteless,
            unheard=health.unheard,
        )

    def _role_told(self) -> MemberRole:
        if self.serving is not None:
            return MemberRole.PRIMARY
        return MemberRole.CATCHING_UP if self.member.role is Role.CATCHING_UP else MemberRole.BACKUP

    # ---- events

    def received(self, sender: int, boot: int, payload: Buffer) -> None:
        """A message of the bus to this group; what cannot be read or believed is counted and dropped."""
        try:
            envelope = decode_envelope(payload)
            message = decode_group(envelope.parts[0]) if isinstance(envelope, GroupBytes) else None
        except ProtocolError:
            self.malformed += 1
            return
        if message is not None and not is_credible(self._settings, sender, message):
            self.malformed += 1
            return
        before = self._standing()
        try:
            if message is not None:
                self._group_message(sender, message)
            elif isinstance(envelope, Commands):
                self._commanded(sender, boot, envelope, len(payload))
        except Exception as error:
            self._contain(before, error)

    def _standing(self) -> tuple[object, ...]:
        """What of this member must be on record, and what others build on."""
        log, voter = self._log, self.voter
        vote = None if voter is None else voter.vote
        return log.last_lsn, log.promised, self.member.committed, self.member.role, vote

    def _contain(self, before: tuple[object, ...], error: Exception) -> None:
        """An error in the middle of a message of another node. If it changed nothing that counts it ends there; else
        what should have followed was not done, and only a start can tell what is true.
        """
        if isinstance(error, FATAL):
            raise error
        if self._standing() != before:
            raise BrokenInvariant(
                f"An error came in the middle of a message of another node, after it had changed the log or a promise"
                f" of group {self.group}. The node stops, and a start goes on from the disk. The error was: {error!r}"
            ) from error
        self._faults.note("taking a message of another node", error)

    def _group_message(self, sender: int, message: GroupMessage) -> None:
        if isinstance(message, CopyMessage):
            self._disk.copies.received(sender, message)
            return
        if self.voter is not None and isinstance(message, TO_VOTER):
            self.voter.asked(sender, message)
        if isinstance(message, Heartbeat) and message.leased and message.wall and self.serving is None:
            self._clock.follow(message.wall)
        self._handle(Received(sender, message))

    def _commanded(self, sender: int, boot: int, message: Commands, size: int) -> None:
        """Every member keeps the payloads, so that the primary only has to name them; it alone listens to the rest."""
        if self.serving is not None or self.member.primary is not None:
            self._state.commanded(sender, boot, message, size)
        else:
            for command in message.commands:
                if isinstance(command, Publish):
                    self._handle(DataArrived(reference_to(command), command.block.data))

    def node_up(self, node: int, boot: int) -> None:
        """The bus hears another node, perhaps again."""
        self._state.node_up(node, boot)

    def node_gone(self, node: int, boot: int) -> None:
        """The bus does not hear that incarnation of another node any more."""
        self._state.node_gone(node, boot)

    def lost_sync(self, node: int) -> None:
        """Something that a client manager sent to the group will never come."""
        self._state.lost_sync(node)

    def hold_back(self, blocked: bool) -> None:
        """While the bus takes nothing, no new answers are made for it."""
        self._held_back = blocked

    def spare(self, nodes: Collection[int]) -> None:
        """These client managers take their answers slowly: until others are named, they get no more deliveries."""
        self._state.spare(nodes)

    def hand_over(self) -> bool:
        """Gives the role of the primary away: nothing new is begun, and as soon as a backup has everything it takes
        over. `role` shows whether that works; after some seconds in vain this one goes on. False: nobody else can.
        """
        if self.serving is None or len(self.in_sync) < 2:
            return False
        self.serving.manager.settle_reserves()
        self._hand_over_until = self._clock.now() + HAND_OVER_SECONDS
        self._wake()
        return True

    def force_promotion(self) -> None:
        """An operator gives up the members that are in sync: this one leads without them, if nobody else does (R13)."""
        self.member.force()

    def prepare_to_stop(self) -> None:
        """Notes what was delivered, and takes a snapshot for a quick start. Go on pumping until `idle`."""
        if self.serving is not None:
            self.serving.manager.settle_reserves()
        self._disk.snapshot()

    @property
    def idle(self) -> bool:
        """Nothing is on its way to the disk."""
        return not self._log.busy and not self._disk.snapshotting

    @property
    def handing_over(self) -> bool:
        return self.serving is not None and self._clock.now() < self._hand_over_until

    def tick(self) -> None:
        now, wall = self._clock.now(), self._clock.wall()  # A backup asks for it, too: it must see every jump.
        self._disk.tick(now)
        if now >= self.member.next_deadline():
            self._handle(Tick())
        if self.voter is not None:
            self.voter.tick()
        if self.serving is not None and self.member.may_deliver(now):
            self.serving.manager.tick(now, wall)
        if self._reports.due:
            self._out.append(self._reports.tell(self.status()))

    def next_deadline(self) -> float:
        deadline = min(self.member.next_deadline(), self._reports.next_at, self._disk.copies.next_deadline())
        if self.voter is not None:
            deadline = min(deadline, self.voter.next_deadline())
        if self.serving is not None and self.member.may_deliver(self._clock.now()):
            deadline = min(deadline, self.serving.next_deadline())
        return deadline

    # ---- the machine

    def _handle(self, event: Event) -> None:
        for effect in self.member.handle(event, self._clock.now()):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._out += group_messages(self.group, self.node, effect, self._clock.wall())
                if self.node in effect.receivers:
                    self._own.append(effect.message)
            case Committed():
                self._state.committed(effect)
            case RoleChanged():
                self._role_changed(effect)
            case ReadLog():
                self._read_log(effect)
            case ReadSnapshot():
                self._disk.transfer.read_snapshot(effect, self._handle_later)
            case StageChunk():
                self._disk.transfer.stage(effect, self._handle_later)
            case InstallSnapshot():
                self._state.leave()
                self._disk.install(effect, self._clock.now(), self._installed)
            case PromotedUncleanly():
                self.promoted_uncleanly = effect
            case FoundOlder():
                self.older = effect.text
            case Alarm():
                self.alarm = effect.text

    def _handle_later(self, event: Event) -> None:
        """The disk has an answer."""
        self._handle(event)
        self._wake()

    def _installed(self, event: Installed, standby: Standby) -> None:
        self._state.follow_from(standby)
        self._handle_later(event)

    def _role_changed(self, effect: RoleChanged) -> None:
        if effect.role is Role.PRIMARY:
            self._state.promoted()
        else:
            self._hand_over_until = float("-inf")
            self._state.demoted()

    # ---- work

    def pump(self) -> bool:
        """Moves everything that can move; True when there is more work than one turn should do."""
        more = False
        for _ in range(_TURNS_PER_PUMP):
            more, out = self._state.turn(may_begin=not self._held_back and not self.handing_over)
            self._out += out
            moved = self._propose() | self._disk.write_log() | self._talk_to_oneself()
            if not moved:
                break
        if self.handing_over:
            self._handle(HandOver())
        if self.voter is not None:
            self.voter.pump()
            self._out += self.voter.take_out()
        for copy in self._disk.copies.take_out():
            self._out += group_messages(self.group, self.node, copy)
        self._disk.step(stateful=self._state.is_there)
        if self._reports.differs(self._role_told(), self.epoch, self.in_sync):
            self._out.append(self._reports.tell(self.status()))
        return more or bool(self._own)

    def _talk_to_oneself(self) -> bool:
        voter = self.voter
        if voter is not None:
            self._own.extend(voter.take_own())
        moved = bool(self._own)
        while self._own:
            self._group_message(self.node, self._own.popleft())
        return moved

    def _propose(self) -> bool:
        records = self._state.take_records()
        if records:
            self._handle(Propose(records))
        return bool(records)

    def _read_log(self, effect: ReadLog) -> None:
        def done(entries: Entries) -> None:
            if entries is None:
                self._read_log(effect)
                return
            self._handle_later(LogRead(effect.request, entries))

        self._disk.read(effect.first, effect.last, done)

    def take_out(self) -> list[Outgoing]:
        out, self._out = self._out, []
        return out

    def close(self) -> None:
        self._disk.close()
