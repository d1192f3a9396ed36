"""The invariants of one group of the real members, from what they commit, store, tell and are.

I1   what was confirmed is committed, and in the log of every later primary
I2   committed prefixes of any two members agree
I3   one primary for each epoch (with I4, I5: the register)
I6   of everything confirmed there are as many copies on disk as the confirmation said
I7   no two members may deliver at the same time
I8   each producer's batches are stored once each, in order
I13  equal LSN, equal state
I15  a member's disk holds no more than its bound
I16  every message that is needed is in a file
"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.cluster.commands import Stored
from tocsin.cluster.envelope import Replies
from tocsin.cluster.group_config import Replica
from tocsin.journal.journal import Journal
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.records import RecordKind, read_stored
from tocsin.message_manager.state_hash import state_hash
from tocsin.model.batch import Block
from tocsin.model.identity import Lsn
from tocsin.node.group_member import GroupMember
from tocsin.replication.roles import Role
from tocsin.testing.clusters.shadow_log import Chosen, ShadowLog, same
from tocsin.testing.disk import SimulatedDisk
from tocsin.testing.simulation.register_checks import RegisterChecks, Violation

DISK_BYTES_MAX = 8 << 20
HOSTILE = "hostile"
"""In the name of what only a client has that keeps no rule."""


class GroupChecks:
    def __init__(self, group: int, nodes: Iterable[int]) -> None:
        self.group = group
        self.register = RegisterChecks()
        self.records: list[Chosen] = []
        """Every committed record, by LSN."""
        self.logs = {node: ShadowLog(node) for node in nodes}
        self.alive: dict[int, GroupMember] = {}
        self.promotions = 0
        self.lost: set[Replica] = set()
        """Replicas whose disk was lost."""
        self._seen: dict[int, int] = {}
        self._roles: dict[int, tuple[Role, int]] = {}
        self._published: dict[tuple[bytes, int], int] = {}
        self._last_sequence: dict[tuple[int, bytes], int] = {}
        self._confirmed: dict[int, int] = {}
        """How many copies were told of records that were confirmed."""
        self._hashes: dict[int, tuple[bytes, int]] = {}

    # ---- lives

    def opened(self, node: int, member: GroupMember) -> None:
        self.logs[node].watch(member)
        self.alive[node] = member
        self._seen[node] = member.member.committed
        self._roles[node] = (member.role, member.epoch)

    def died(self, node: int) -> None:
        if self.alive.pop(node, None) is not None:
            self.logs[node].let_go()

    def disk_lost(self, node: int, replicas: Iterable[Replica]) -> None:
        self.lost.update(replicas)
        for replica in self.lost:
            self.register.forget(replica)
        self.logs[node] = ShadowLog(node)

    def vote_lost(self, replica: object) -> None:
        """A voter has lost its file, and with it its word."""
        if isinstance(replica, Replica):
            self.register.forget(replica)

    def lost_in_sync(self) -> set[int]:
        """Nodes whose disk was lost and that are not level again."""
        config = self.register.config
        level = {replica.node for replica in config.in_sync if replica not in self.lost} if config else set()
        return {replica.node for replica in self.lost} - level

    # ---- after every event of a node

    def after_turn(self, node: int, member: GroupMember) -> None:
        if member.alarm is not None:
            raise Violation("I1", f"node {node} has stopped: {member.alarm}")
        machine = member.member
        role = (machine.role, machine.epoch)
        if role != self._roles[node]:
            self._roles[node] = role
            if machine.role is Role.PRIMARY:
                self._promoted(node, machine.epoch)
        self._catch_up(node, member)
        self._check_deliverers()

    def _catch_up(self, node: int, member: GroupMember) -> None:
        if member.member.committed > self._seen[node]:
            self._committed(node, member.member.committed)

    def _promoted(self, node: int, epoch: int) -> None:
        self.promotions += 1
        if self.register.promoted(node, epoch):
            self._check_log(node, len(self.records), "I1", "the log of a new primary lacks or changes")

    def _check_deliverers(self) -> None:
        primaries = [member for member in self.alive.values() if member.member.primary is not None]
        if len(primaries) > 1:
            able = [member.node for member in primaries if member.member.may_deliver(member._clock.now())]
            if len(able) > 1:
                raise Violation("I7", f"nodes {able} may deliver at the same time")

    def _committed(self, node: int, committed: int) -> None:
        log = self.logs[node]
        for lsn in range(max(self._seen[node], log.base) + 1, committed + 1):
            record = log.records[lsn]
            if lsn > len(self.records):
                assert lsn == len(self.records) + 1, "no record is committed before the one before it"
                self.records.append(record)
                self._chosen(lsn, record)
            elif not same(self.records[lsn - 1], record):
                was = self.records[lsn - 1][:3]
                raise Violation("I2", f"node {node} commits {record[:3]} as record {lsn}, which is {was}")
        self._seen[node] = committed
        self.check_findable()

    def check_findable(self) -> None:
        """I1, before it comes to the worst: whichever configuration the next candidate finds, so many of its in-sync
        members have the last committed record that it cannot lead without one of them.
        """
        lsn = len(self.records)
        if not lsn or self.lost_in_sync():
            return
        record = self.records[lsn - 1]
        for config in self.register.findable():
            nodes = [replica.node for replica in config.in_sync]
            found = sum(self.logs[node].has_durably(lsn, record) for node in nodes)
            if found < min(config.copies, len(nodes)):
                raise Violation("I1", f"record {lsn} is committed, but a round could find {config}: {found} have it")

    def _chosen(self, lsn: int, record: Chosen) -> None:
        """I8: from the producers' side; the history of the applications has the other."""
        if record.kind != RecordKind.PUBLISH:
            return
        stored = read_stored(b"".join(record.entry.parts))
        block = Block(stored.block)
        first, last = block.first_sequence, block.first_sequence + block.count - 1
        key = (stored.destination, block.producer_id)
        # Who publishes again what was forgotten at its own word has it twice.
        if first <= self._last_sequence.get(key, 0) and HOSTILE not in block.destination:
            before = self._last_sequence[key]
            raise Violation("I8", f"record {lsn} stores sequences from {first} on, but {before} is stored already")
        self._last_sequence[key] = last
        self._published[block.producer_id, last] = lsn

    # ---- what client managers are told

    def replied(self, node: int, message: Replies) -> None:
        self._catch_up(node, self.alive[node])
        for reply in message.replies:
            if isinstance(reply, Stored) and reply.copies:
                lsn = self._published.get((reply.session, reply.sequence))
                if lsn is None:
                    raise Violation("I1", f"node {node} confirms {reply}, which is not committed")
                self._confirmed[lsn] = max(self._confirmed.get(lsn, 0), reply.copies)
                self._check_copies(lsn)

    def _check_copies(self, lsn: int) -> None:
        record, told = self.records[lsn - 1], self._confirmed[lsn]
        found = sum(log.has_durably(lsn, record) for log in self.logs.values())
        # A disk that was just lost cannot be known to the one who confirms.
        if found < told - len(self.lost_in_sync()):
            raise Violation("I6", f"record {lsn} was confirmed with {told} copies, but {found} disks have it")

    # ---- now and then

    def _check_log(self, node: int, last: int, invariant: str, text: str) -> None:
        log = self.logs[node]
        for lsn in range(log.base + 1, last + 1):
            found = log.records.get(lsn)
            if found is None or not same(found, self.records[lsn - 1]):
                raise Violation(invariant, f"{text} committed record {lsn} (node {node})")

    def thorough(self, disks: dict[int, SimulatedDisk]) -> None:
        for node, member in self.alive.items():
            self._check_log(node, self._seen[node], "I2", "a log lacks or changes")
            # Between two roles a member has no state that counts.
            if member.has_state:
                self._check_state(node, member)
                self._check_files(node, member)
            used = disks[node]._used(disks[node]._root)
            if used > DISK_BYTES_MAX:
                raise Violation("I15", f"the disk of node {node} has grown to {used} bytes")
        for lsn in self._confirmed:
            self._check_copies(lsn)

    def _check_state(self, node: int, member: GroupMember) -> None:
        """A primary that serves has applied its whole log; its state counts when all of that is committed."""
        lsn = member.stands_at
        if lsn > member.committed:
            return
        digest = state_hash(member.manager.directory)
        known, by = self._hashes.setdefault(lsn, (digest, node))
        if known != digest:
            raise Violation("I13", f"nodes {by} and {node} have different states after record {lsn}")

    def _check_files(self, node: int, member: GroupMember) -> None:
        journal = member._disk.store.journal
        for state in member.manager.directory:
            log = state.log
            for index in range(len(log)):
                lsn = log.lsns[index]
                if log.firsts[index] < state.stream_end or not log.needed[index] or lsn > journal.durable_lsn:
                    continue
                self._check_file(node, state, lsn, journal)
            for lsn in state.stages.lsns():
                if lsn <= journal.durable_lsn:
                    self._check_file(node, state, lsn, journal)

    def _check_file(self, node: int, state: DestinationState, lsn: int, journal: Journal) -> None:
        if journal.locate(Lsn(lsn)) is None:
            raise Violation("I16", f"node {node} needs record {lsn} of {state.address}, which is in no file")
