"""Older copies (R16): how the others notice that the files of a replica are not the newest that it has had.

Each start of a replica, of a member's log or of a voter's vote, has a number, which its files keep. Whoever hears of it
remembers the highest start, and how far the files had come in it: of a member the last record that is committed and on
its disk, of a voter the counter of the ballot that it promised. Voters keep that with their vote. Files that do not
know of a start that others have seen, or that had come further, are an older copy: a restored backup, a disk of
another day. Such a replica counts for nothing; it begins anew, as another store.

A replica that is told that a start was noted keeps that number in place of all before it. Starts that nobody answered
are kept one by one: of those nobody can say who has seen them, and an older copy that is started twice must not pass
for the replica that has had as many starts.

Packed, little-endian. A life:

     0  u32  start
     4  u64  position
    12  u8   count, then as often: u32    the starts before; in files the same by itself

What is known, first of members, then of voters:

     0  u16  count, then as often: u16 node, u64 store, u32 start, u64 position
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.model.limits import GROUP_MEMBERS_MAX, GROUP_REPLICAS_KNOWN_MAX, GROUP_VOTERS_MAX, STARTS_KEPT_MAX


class Life(NamedTuple):
    """One start of a replica, as it tells it itself; it stays the same until the next one."""

    start: int
    before: tuple[int, ...]
    """Starts before it, as far as its files know: the last that was noted by others, and those behind it."""
    position: int
    """How far its files had come when it began."""

    def knows(self, start: int) -> bool:
        return start in self.before or start <= min(self.before, default=0)


class Seen(NamedTuple):
    """What others remember of a replica."""

    replica: Replica
    start: int
    position: int


class Known(NamedTuple):
    """What somebody remembers, to be told and to be kept."""

    members: tuple[Seen, ...] = ()
    voters: tuple[Seen, ...] = ()

    def starts(self) -> set[tuple[Replica, int]]:
        return {(seen.replica, seen.start) for table in self for seen in table}


NO_LIFE = Life(0, (0,), 0)
NOTHING = Known()


def is_older_copy(life: Life, seen: Seen) -> bool:
    """R16: the files of this life lack something that the replica has had. In one life nothing is ever lacking."""
    return life.start != seen.start and (not life.knows(seen.start) or life.position < seen.position)


def kept(starts: tuple[int, ...], start: int) -> tuple[int, ...]:
    """The starts that files keep from a new one on; 0 is none."""
    return (*starts, start)[-STARTS_KEPT_MAX:] if start else starts


class Lives:
    """What is known of some replicas, of members or of voters."""

    __slots__ = ("_seen",)

    def __init__(self, seen: Iterable[Seen] = ()) -> None:
        self._seen: dict[Replica, Seen] = {}
        self.merge(seen)

    def evidence(self, replica: Replica, life: Life) -> Seen | None:
        """What proves that this is an older copy; None when nothing does."""
        seen = self._seen.get(replica)
        return seen if seen is not None and is_older_copy(life, seen) else None

    def note(self, replica: Replica, start: int, position: int = 0) -> bool:
        """It was seen in this start, with its files at least so far; of a log only what is committed counts, the rest
        may be cut. Only of one that is no older copy. True when it has started anew since it was seen last.
        """
        seen = self._seen.get(replica)
        if seen is None and len(self._seen) >= GROUP_REPLICAS_KNOWN_MAX:
            return False
        if seen is None or start > seen.start:
            self._seen[replica] = Seen(replica, start, position if seen is None else max(position, seen.position))
        elif start == seen.start and position > seen.position:
            self._seen[replica] = seen._replace(position=position)
        return seen is not None and start > seen.start

    def reached(self, replica: Replica, position: int) -> None:
        """Its files have come so far, in the start that is known."""
        seen = self._seen.get(replica)
        if seen is not None and position > seen.position:
            self._seen[replica] = seen._replace(position=position)

    def merge(self, seen: Iterable[Seen]) -> None:
        for each in seen:
            self.note(*each)

    def clear(self) -> None:
        self._seen.clear()

    def of(self, replicas: Iterable[Replica]) -> tuple[Seen, ...]:
        """Sorted."""
        return tuple(self._seen[replica] for replica in sorted(replicas) if replica in self._seen)


class Memory:
    """What a candidate or a primary knows of all."""

    __slots__ = ("_unclean_epoch", "members", "voters")

    def __init__(self) -> None:
        self.members, self.voters = Lives(), Lives()
        self._unclean_epoch = 0

    def settle(self, config: GroupConfig) -> None:
        """What members had before an operator forced a promotion (R13) is given up: nobody is measured by it."""
        if config.unclean_epoch > self._unclean_epoch:
            self._unclean_epoch = config.unclean_epoch
            self.members.clear()

    def told(self, config: GroupConfig, followers: Iterable[Replica] = ()) -> Known:
        """Also of members that follow and are not in sync yet: their starts are known before they count."""
        return Known(self.members.of({*config.in_sync, *followers}), self.voters.of(config.voters))


def merged(known: Known, of: GroupConfig | None, told: Known, config: GroupConfig) -> Known:
    """What a voter knows when the primary of `config` has told it this; `of` is the configuration it knew before."""
    forced = of is not None and config.unclean_epoch > of.unclean_epoch
    members = Lives(() if forced else known.members)
    members.merge(told.members)
    voters = Lives(known.voters)
    voters.merge(told.voters)
    counted = {*config.in_sync, *(seen.replica for seen in told.members)}
    return Known(members.of(counted), voters.of(config.voters))


_LIFE = struct.Struct("<IQ")
_SEEN = struct.Struct("<HQIQ")


def pack_life(packer: Packer, life: Life) -> None:
    packer.record(_LIFE, life.start, life.position)
    pack_starts(packer, life.before)


def unpack_life(unpacker: Unpacker) -> Life:
    start, position = unpacker.record(_LIFE)
    return Life(start, unpack_starts(unpacker), position)


def pack_starts(packer: Packer, starts: tuple[int, ...]) -> None:
    packer.fixed(struct.pack(f"<B{len(starts)}I", len(starts), *starts))


def unpack_starts(unpacker: Unpacker) -> tuple[int, ...]:
    count = unpacker.u8()
    return struct.unpack(f"<{count}I", unpacker.view(4 * count))


def pack_seen(packer: Packer, seen: Seen) -> None:
    packer.record(_SEEN, *seen.replica, seen.start, seen.position)


def unpack_seen(unpacker: Unpacker) -> Seen:
    node, store, start, position = unpacker.record(_SEEN)
    return Seen(Replica(node, store), start, position)


def pack_known(packer: Packer, known: Known) -> None:
    for table in known:
        packer.u16(len(table))
        for seen in table:
            pack_seen(packer, seen)


def unpack_known(unpacker: Unpacker) -> Known:
    # A node that has lost its disk is in it twice, until the old store is out of the in-sync set.
    members = tuple(unpack_seen(unpacker) for _ in range(unpacker.count(2 * GROUP_MEMBERS_MAX)))
    return Known(members, tuple(unpack_seen(unpacker) for _ in range(unpacker.count(GROUP_VOTERS_MAX))))
