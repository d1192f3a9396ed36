"""The value of a group's register: who is primary, in which epoch, and who has every confirmed record.

Packed, little-endian:

     0  u64  version    one more with every change
     8  u32  epoch
    12  u16  primary    node
    14  u16  copies     wanted for a confirmation; fewer when fewer are in sync
    16  u16  count, then as often: u16 node, u64 store      the in-sync set
     .  u16  count, then as often: u16 node, u64 store      the voters
     .  u32  epoch of the last unclean promotion            0: there was none
     .  u64  LSN where the log ended that it took
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tocsin.cluster.packing import Packer, Unpacker
from tocsin.model.limits import GROUP_MEMBERS_MAX, GROUP_VOTERS_MAX


class Replica(NamedTuple):
    """One store of a node. A node whose disk was lost comes back with another store: it is another replica,
    that nobody counts by mistake.
    """

    node: int
    store: int


class Ballot(NamedTuple):
    """Orders the rounds at the register. Unique: no two rounds, also not of two lives of a node, share one."""

    counter: int
    node: int
    boot: int


NO_BALLOT = Ballot(0, 0, 0)
_EPOCH_RANK_BITS = 6
EPOCH_MAX = (1 << 32) - (1 << 16)
"""Nothing of a later epoch is taken from others: what is left is for those who would come after the last one."""
assert 1 << _EPOCH_RANK_BITS >= GROUP_MEMBERS_MAX, "the rank of a member is part of its epochs"


def next_ballot(highest: Ballot, node: int, boot: int) -> Ballot:
    return Ballot(highest.counter + 1, node, boot)


def next_epoch(highest: int, rank: int) -> int:
    """An epoch above `highest` that only the member of this rank can choose. It fits the 32 bits that a
    journal record has for it: room for 67 million promotions.
    """
    return (highest >> _EPOCH_RANK_BITS) + 1 << _EPOCH_RANK_BITS | rank


def owner_of(epoch: int, members: Sequence[int]) -> int | None:
    """The only member that could choose this epoch; None when there is none of that rank."""
    rank = epoch & (1 << _EPOCH_RANK_BITS) - 1
    return members[rank] if rank < len(members) else None


@dataclass(frozen=True, slots=True)
class GroupConfig:
    version: int
    epoch: int
    primary: int
    in_sync: tuple[Replica, ...]
    """Sorted. Every confirmed record is on enough of these disks (see the commit rule)."""
    voters: tuple[Replica, ...]
    copies: int
    unclean_epoch: int = 0
    """Of the last promotion that an operator forced (R13); 0: there was none."""
    unclean_lsn: int = 0
    """Where the log ended that it took: what was confirmed behind it is lost."""

    def with_in_sync(self, in_sync: Iterable[Replica]) -> GroupConfig:
        return replace(self, version=self.version + 1, in_sync=tuple(sorted(in_sync)))

    def towards_voter(self, voter: Replica) -> GroupConfig:
        """One step closer to this store in place of the one that the node had: first that one goes, then this comes.

        Any majority of voters meets any majority of a set with one more or one less, so also a round that finds a step
        that was never chosen misses nothing. With a voter exchanged in one step, half of the former voters and the new
        one would be a majority, and the other half with the former one, should its disk come back, another.
        """
        others = tuple(other for other in self.voters if other.node != voter.node)
        voters = others if 0 < len(others) < len(self.voters) else (*others, voter)
        return replace(self, version=self.version + 1, voters=tuple(sorted(voters)))

    def led_by(self, primary: int, epoch: int, in_sync: Iterable[Replica]) -> GroupConfig:
        return replace(self, version=self.version + 1, epoch=epoch, primary=primary, in_sync=tuple(sorted(in_sync)))

    def uncleanly_led_by(self, primary: int, epoch: int, in_sync: Iterable[Replica], lsn: int) -> GroupConfig:
        return replace(self.led_by(primary, epoch, in_sync), unclean_epoch=epoch, unclean_lsn=lsn)


NO_CONFIG = GroupConfig(0, 0, 0, (), (), 1)
"""What is known of a group before anything is."""


def first_config(members: Collection[Replica], voters: Collection[Replica], copies: int) -> GroupConfig:
    """What `init` writes: nobody leads yet, and all members, still empty, are in sync."""
    return GroupConfig(1, 0, 0, tuple(sorted(members)), tuple(sorted(voters)), copies)


def is_majority(voters: Collection[Replica], answered: Collection[Replica]) -> bool:
    """Whether more than half of the voters are among those who answered."""
    return 2 * sum(voter in answered for voter in voters) > len(voters)


def pack_ballot(packer: Packer, ballot: Ballot) -> None:
    packer.u64(ballot.counter)
    packer.u16(ballot.node)
    packer.u32(ballot.boot)


def unpack_ballot(unpacker: Unpacker) -> Ballot:
    return Ballot(unpacker.u64(), unpacker.u16(), unpacker.u32())


# Every heartbeat carries a configuration, so it is read in as few steps as there are pieces of known length.
_CONFIG_HEAD = struct.Struct("<QIHH")
_CONFIG_TAIL = struct.Struct("<IQ")
_REPLICA = struct.Struct("<HQ")


def pack_config(packer: Packer, config: GroupConfig) -> None:
    packer.u64(config.version)
    packer.u32(config.epoch)
    packer.u16(config.primary)
    packer.u16(config.copies)
    for replicas in (config.in_sync, config.voters):
        packer.u16(len(replicas))
        for replica in replicas:
            pack_replica(packer, replica)
    packer.u32(config.unclean_epoch)
    packer.u64(config.unclean_lsn)


def unpack_config(unpacker: Unpacker) -> GroupConfig:
    version, epoch, primary, copies = unpacker.record(_CONFIG_HEAD)
    in_sync = _unpack_replicas(unpacker, GROUP_MEMBERS_MAX)
    voters = _unpack_replicas(unpacker, GROUP_VOTERS_MAX)
    return GroupConfig(version, epoch, primary, in_sync, voters, copies, *unpacker.record(_CONFIG_TAIL))


def _unpack_replicas(unpacker: Unpacker, most: int) -> tuple[Replica, ...]:
    found = unpacker.view(unpacker.count(most) * _REPLICA.size)
    return tuple(Replica(*each) for each in _REPLICA.iter_unpack(found))


def pack_replica(packer: Packer, replica: Replica) -> None:
    packer.u16(replica.node)
    packer.u64(replica.store)


def unpack_replica(unpacker: Unpacker) -> Replica:
    return Replica(*unpacker.record(_REPLICA))
