"""Who has the state of a group member now: a standby that follows the log, or a primary that serves it.

When a member is primary no more, its message manager may know things that never happen: that state is thrown away and
built again from the newest snapshot and the log, both of which have only what the group agreed on. Until it is there,
and while a snapshot of another member is put in place, nobody has the state.
"""

from __future__ import annotations

from collections.abc import Collection

from tocsin.cluster.envelope import Commands
from tocsin.message_manager.machine import MessageManager
from tocsin.model.limits import LINK_MESSAGES_EARLY_MAX
from tocsin.node.following import Following
from tocsin.node.group_disk import GroupDisk
from tocsin.node.group_journal import GroupJournal, References
from tocsin.node.group_primary import ServingPrimary
from tocsin.node.outgoing import Outgoing
from tocsin.node.standby import Standby
from tocsin.replication.events import Committed, Record
from tocsin.replication.member import Member
from tocsin.runtime.ports import Clock


class MemberState:
    """`member` says what the member is, `clock` and `disk` are its own."""

    def __init__(
        self,
        group: int,
        node: int,
        member: Member,
        disk: GroupDisk,
        references: References,
        clock: Clock,
        client_managers: Collection[int],
    ) -> None:
        self._group, self._node, self._member, self._disk = group, node, member, disk
        self._references, self._clock, self._client_managers = references, clock, client_managers
        self.following: Following | None = Following(disk, disk.store.standby)
        self.serving: ServingPrimary | None = None
        self._serve_behind = 0
        """Serving begins when this record of the log is applied."""
        self._up: dict[int, int] = {}
        self._slow: Collection[int] = ()
        self._early: list[tuple[int, int, Commands, int]] = []
        """What a primary was told that does not serve yet."""

    @property
    def manager(self) -> MessageManager:
        return self._disk.store.manager

    @property
    def stands_at(self) -> int:
        """The record that the state has applied last; a primary applies what it orders at once."""
        if self.following is not None:
            return self.following.standby.applied
        return int(self.manager.ledger.journal.last_lsn)

    @property
    def is_there(self) -> bool:
        """Whether there is a state, and it is the one behind the record that it stands at."""
        return self.serving is not None or (self.following is not None and self.following.standby.is_whole)

    # ---- client managers

    def commanded(self, sender: int, boot: int, message: Commands, size: int) -> None:
        """To a primary. One that does not serve yet keeps a little: what it must leave out breaks a link, which is told
        later.
        """
        if self.serving is None:
            if len(self._early) < LINK_MESSAGES_EARLY_MAX:
                self._early.append((sender, boot, message, size))
            return
        if self._member.primary is not None:
            # Some commands are done at once: what the group can promise now counts, not what it could a turn ago.
            self.serving.manager.ledger.possible_copies = self._member.primary.possible_copies()
        self.serving.commanded(sender, boot, message, size, self._clock.now())

    def node_up(self, node: int, boot: int) -> None:
        self._up[node] = boot
        if self.serving is not None:
            self.serving.tell_if_broken(node, self._clock.now())

    def node_gone(self, node: int, boot: int) -> None:
        if self._up.get(node) == boot:
            del self._up[node]
        if self.serving is not None:
            self.serving.gone(node, boot, self._clock.now())

    def lost_sync(self, node: int) -> None:
        if self.serving is not None:
            self.serving.give_up_link(node, self._clock.now())

    def spare(self, nodes: Collection[int]) -> None:
        self._slow = nodes
        if self.serving is not None:
            self.serving.spare(nodes)

    # ---- the state moves on

    def turn(self, *, may_begin: bool) -> tuple[bool, list[Outgoing]]:
        """A backup applies, a primary serves: whether there is more, and what is to be sent.

        `may_begin`: nothing stands in the way of new deliveries but the lease.
        """
        more = self._follow(self.following) if self.following is not None else False
        serving = self.serving
        if serving is None:
            return more, []
        now, primary = self._clock.now(), self._member.primary
        if primary is not None and may_begin and primary.may_deliver(now):
            ledger = serving.manager.ledger
            ledger.copies, ledger.possible_copies = primary.copies_of(self._member.committed), primary.possible_copies()
            more = serving.run(now, self._clock.wall())
        # Without a lease nothing is begun; what was begun with one may be answered.
        serving.send_replies()
        out, serving.out = serving.out, []
        return more, out

    def take_records(self) -> list[Record]:
        """What the message manager wants to have ordered."""
        return self._journal_of(self.serving).take() if self.serving is not None else []

    def committed(self, effect: Committed) -> None:
        serving = self.serving
        if serving is not None:
            self._journal_of(serving).committed(effect.lsn)
            serving.manager.ledger.copies = effect.copies
            serving.manager.durable(self._clock.now(), self._clock.wall())

    @staticmethod
    def _journal_of(serving: ServingPrimary) -> GroupJournal:
        journal = serving.manager.ledger.journal
        assert isinstance(journal, GroupJournal)
        return journal

    # ---- from one to the other

    def promoted(self) -> None:
        """The member is the primary; it serves once all of its log is applied."""
        self._early = []
        self._serve_behind = self._disk.log.last_lsn

    def demoted(self) -> None:
        self._early = []
        if self.serving is not None:
            # The message manager may have applied what never commits.
            self.serving, self._disk.log.remembers = None, True
            self._references.clear()
            self._disk.reload(self._clock.now(), self.follow_from)

    def follow_from(self, standby: Standby) -> None:
        self.following = Following(self._disk, standby)

    def leave(self) -> None:
        """A snapshot of another member takes the place of what there is."""
        self.following = None

    def _follow(self, following: Following) -> bool:
        more = following.apply(self._member.committed, self._clock.now())
        if self._member.primary is not None and following.standby.applied >= self._serve_behind:
            self._serve(following.standby, self._member.primary.epoch)
        return more

    def _serve(self, standby: Standby, epoch: int) -> None:
        """All that was ever confirmed is in the state."""
        now, log = self._clock.now(), self._disk.log
        manager = standby.serve(self._disk.store.streams, now, self._clock.wall())
        self.following = None
        log.remembers = False
        log.forget_all()
        expected = {node for node in self._client_managers if node in self._up or node == self._node}
        self.serving = ServingPrimary(self._group, epoch, manager, self._references, expected, now)
        self.serving.spare(self._slow)
        early, self._early = self._early, []
        for message in early:
            self.serving.commanded(*message, now)
