"""The invariants, checked while a simulation runs. A broken one raises Violation with its number.

I1   what was confirmed is in the log of every later primary
I2   committed prefixes of any two members agree
I3   one primary for each epoch
I4   one configuration for each version; versions and epochs rise with the ballots that chose them
I5   only members of the in-sync set are promoted
I6   of everything confirmed there are as many copies on disk as the confirmation said
I7   no two members may deliver at the same time, and no client manager hears an earlier epoch after a later one
I8   each producer's messages are stored once each, in order, without a gap
I13  equal LSN, equal state
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.cluster.vote import Vote
from tocsin.replication.events import RoleChanged
from tocsin.replication.log import Entry
from tocsin.replication.roles import Role
from tocsin.testing.simulation.register_checks import RegisterChecks, Violation
from tocsin.testing.simulation.state import name_of
from tocsin.testing.simulation.traffic import Confirm

__all__ = ["Checkers", "Violation"]

if TYPE_CHECKING:
    from tocsin.testing.simulation.member_node import MemberNode
    from tocsin.testing.simulation.voter_node import VoterNode
    from tocsin.testing.simulation.world import World


class _Chosen(NamedTuple):
    epoch: int
    kind: int
    producer: int
    sequence: int


def _chosen(entry: Entry) -> _Chosen:
    return _Chosen(entry.epoch, entry.kind, *name_of(entry))


class Checkers:
    def __init__(self, world: World) -> None:
        self._world = world
        self.history: list[_Chosen] = []
        """Every committed record, by LSN."""
        self.confirmed_copies: dict[int, int] = {}
        self.register = RegisterChecks()
        self._hashes: list[int] = []
        self._stored: dict[int, int] = {}
        self._heard: dict[int, int] = {}
        self.lost: set[Replica] = set()
        """Replicas whose disk was lost."""

    @property
    def config(self) -> GroupConfig | None:
        """The newest configuration that was chosen."""
        return self.register.config

    def voted(self, node: VoterNode, vote: Vote) -> None:
        if Replica(node.node, vote.store) in self.lost:
            # An older copy, which nobody counts.
            return
        self.register.voted(node.node, vote)
        self._world.stats.in_sync_changes = self.register.in_sync_changes
        self._check_findable()

    def _check_findable(self) -> None:
        """I1, before it comes to the worst: whichever configuration the next candidate finds, so many of its in-sync
        members have the last committed record that it cannot lead without one of them.
        """
        lsn = len(self.history)
        if not lsn or self.lost_in_sync():
            return
        for config in self.register.findable():
            members = [node for node in self._world.members if Replica(node.node, node.log.store) in config.in_sync]
            found = sum(self._has(node, lsn) for node in members)
            if found < min(config.copies, len(config.in_sync)):
                raise Violation("I1", f"record {lsn} is committed, but a round could find {config}: {found} have it")

    def admitted(self, client: int, epoch: int) -> None:
        if epoch < self._heard.get(client, 0):
            raise Violation("I7", f"client manager {client} took epoch {epoch} after {self._heard[client]}")
        self._heard[client] = epoch

    # ---- roles

    def role_changed(self, node: MemberNode, effect: RoleChanged) -> None:
        if effect.role is Role.STOPPED:
            raise Violation("I1", f"node {node.node} stopped without a fault that calls for it")
        if effect.role is not Role.PRIMARY:
            return
        primary = node.member.primary
        assert primary is not None
        if self.register.promoted(node.node, primary.epoch):
            self._check_log(node, len(self.history), "I1", "the log of a new primary lacks or changes")

    def _check_log(self, node: MemberNode, last: int, invariant: str, text: str) -> None:
        log = node.log
        for lsn in range(log.base_lsn + 1, last + 1):
            if lsn > log.last_lsn or _chosen(log.entry(lsn)) != self.history[lsn - 1]:
                raise Violation(invariant, f"{text} committed record {lsn} (node {node.node})")

    def alarmed(self, node: MemberNode, text: str) -> None:
        raise Violation("I1", f"node {node.node} stopped: {text}")

    # ---- records

    def committed(self, node: MemberNode, lsn: int) -> None:
        for number in range(max(node.state.lsn, node.log.base_lsn) + 1, lsn + 1):
            entry = _chosen(node.log.entry(number))
            if number > len(self.history):
                self.history.append(entry)
                self._check_sequence(entry)
            elif self.history[number - 1] != entry:
                was = self.history[number - 1]
                raise Violation("I2", f"node {node.node} commits {entry} as record {number}, which is {was}")
        self._check_findable()

    def _check_sequence(self, entry: _Chosen) -> None:
        if entry.producer:
            last = self._stored.get(entry.producer, 0)
            if entry.sequence != last + 1:
                raise Violation("I8", f"producer {entry.producer}: {entry.sequence} is stored after {last}")
            self._stored[entry.producer] = entry.sequence

    def applied(self, node: MemberNode, lsn: int) -> None:
        if lsn > len(self._hashes):
            self._hashes.append(node.state.digest)
        elif self._hashes[lsn - 1] != node.state.digest:
            raise Violation("I13", f"node {node.node} has another state after record {lsn}")

    def installed(self, node: MemberNode) -> None:
        self.applied(node, node.state.lsn)

    def confirmed(self, lsn: int, producer: int, sequence: int, copies: int) -> None:
        entry = self.history[lsn - 1]
        if (entry.producer, entry.sequence) != (producer, sequence):
            raise Violation("I1", f"{producer}/{sequence} is confirmed as record {lsn}, which is {entry}")
        self.confirmed_copies[lsn] = copies
        found = self._copies(lsn)
        # A disk that was just lost cannot be known to the one who confirms.
        if found < copies - len(self.lost_in_sync()):
            raise Violation("I6", f"record {lsn} is confirmed with {copies} copies, but {found} disks have it")

    def told(self, message: Confirm) -> None:
        """A client manager knows that this is stored, whatever became of the one who said so."""
        entry = self.history[message.lsn - 1]
        if (entry.producer, entry.sequence) != (message.producer, message.sequence):
            raise Violation("I1", f"a client manager was told {message}, and record {message.lsn} is {entry}")

    def _copies(self, lsn: int) -> int:
        return sum(self._has(node, lsn) for node in self._world.members)

    def _has(self, node: MemberNode, lsn: int) -> bool:
        if lsn <= node.log.durable_base():
            return True
        entry = node.log.durable_entry(lsn)
        return entry is not None and _chosen(entry) == self.history[lsn - 1]

    # ---- now and then

    def after_event(self) -> None:
        """I7; two primaries at one time are rare, so this costs next to nothing."""
        primaries = self._world.primaries
        if len(primaries) < 2:
            return
        able = [node.node for node in primaries if node.member.may_deliver(node.now())]
        if len(able) > 1:
            raise Violation("I7", f"nodes {sorted(able)} may deliver at the same time")

    def thorough(self) -> None:
        """I1, I2 and I6 over everything that the disks still have."""
        for node in self._world.members:
            if node.up:
                self._check_log(node, min(node.member.committed, node.state.lsn), "I2", "a log lacks or changes")
        missing = len(self.lost_in_sync())
        low = min((node.log.durable_base() for node in self._world.members), default=0)
        for lsn, copies in self.confirmed_copies.items():
            if lsn > low and self._copies(lsn) < copies - missing:
                raise Violation("I6", f"record {lsn} was confirmed with {copies} copies, now {self._copies(lsn)}")

    def lose(self, node: MemberNode) -> None:
        """A disk is about to be lost."""
        self.lost |= {node.voter.replica, Replica(node.node, node.log.store)}
        self.register.forget(node.voter.replica)

    def lost_in_sync(self) -> set[int]:
        """Nodes whose disk was lost and that are not level again."""
        config = self.config
        level = {replica.node for replica in config.in_sync if replica not in self.lost} if config else set()
        return {replica.node for replica in self.lost} - level
