"""The fault of R16: a whole group goes down, and one member comes back with its disk of an earlier day, vote and all.

A disk that comes back is a disk that is lost, so it strikes only where the loss of that disk would be survived, and
only when the others' votes know of a later start than the copy does: what nobody has heard of nobody can miss.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tocsin.cluster.group_config import Replica
from tocsin.cluster.vote import Vote
from tocsin.testing.simulation.log import MemoryLog
from tocsin.testing.simulation.member_node import MemberNode
from tocsin.testing.simulation.world import World

_COPY_SECONDS = 3.0
_LATER_SECONDS = 6.0
_DOWN_SECONDS = 5.0


class Copy(NamedTuple):
    boot: int
    log: MemoryLog
    vote_file: bytes


def copy_of(node: MemberNode, random: Random) -> Copy:
    return Copy(node.boot, node.log.copied(random), node.vote_file)


def put_back(node: MemberNode, copy: Copy) -> None:
    """Only while it is down."""
    assert not node.up
    node.world.checkers.lose(node)
    node.log, node.vote_file = copy.log, copy.vote_file


class OldCopies:
    """Takes copies and puts them back, again and again until `end`."""

    def __init__(self, world: World, random: Random, end: float) -> None:
        self._world, self._random, self._end = world, random, end
        self._next()

    def _next(self) -> None:
        self._world.after(2 * _COPY_SECONDS * self._random.random(), None, self._take)

    def _take(self) -> None:
        """A copy of one disk; its node is started anew, and goes on without it."""
        world, random = self._world, self._random
        node = random.choice(world.members)
        if world.time >= self._end:
            return
        if not node.up:
            self._next()
            return
        copy = copy_of(node, random)
        node.stop()
        world.after(random.random(), None, self._bring_up, node)
        world.after(1.0 + _LATER_SECONDS * random.random(), None, self._restore, node, copy)

    def _bring_up(self, node: MemberNode) -> None:
        if not node.up:
            node.start()

    def _restore(self, node: MemberNode, copy: Copy) -> None:
        world, random = self._world, self._random
        if world.time < self._end and self._is_survivable(node) and self._is_known(node, copy.boot):
            world.stats.faults += 1
            for voter in world.voters:
                if voter.up:
                    voter.stop()
                world.after(_DOWN_SECONDS * random.random(), None, self._bring_up, voter)
            put_back(node, copy)
        self._next()

    def _is_survivable(self, node: MemberNode) -> bool:
        """Whatever configuration is found later, it names somebody else's disk, too."""
        world = self._world
        config, leaders = world.checkers.config, [leader.member.primary for leader in world.primaries]
        if config is None or not node.up or len(leaders) != 1 or world.checkers.lost_in_sync():
            return False
        (leader,) = leaders
        assert leader is not None
        votes = [voter.voter.vote for voter in world.voters]
        configs = [config, leader.config, leader.pending, *(vote.config for vote in votes)]
        others = {member.node for member in world.members if member is not node}
        all_vote = set(config.voters) == {voter.voter.replica for voter in world.voters}
        return all_vote and all(others & {each.node for each in found.in_sync} for found in configs if found)

    def _is_known(self, node: MemberNode, boot: int) -> bool:
        """All other votes, as they are on disk, know of a start of the log and of the vote behind the copy."""
        member, voter = Replica(node.node, node.log.store), node.voter.replica
        return all(_knows(other.saved_vote(), member, voter, boot) for other in self._world.voters if other is not node)


def _knows(vote: Vote, member: Replica, voter: Replica, boot: int) -> bool:
    of_member = any(seen.replica == member and seen.start > boot for seen in vote.known.members)
    return of_member and any(seen.replica == voter and seen.start > boot for seen in vote.known.voters)
