"""Disks are slow, stand still, fail, fill up, rot and are lost; the last two while others have the same records."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tocsin.journal.segment import RESERVE, SEGMENT_FOLDER, STREAM_FOLDER
from tocsin.testing.clusters.cluster_host import ClusterHost
from tocsin.testing.clusters.fault_kinds import NOBODY, FaultKinds
from tocsin.testing.clusters.node_faults import bring_up
from tocsin.testing.clusters.vote_disk import VOTE
from tocsin.testing.clusters.world import ClusterWorld
from tocsin.testing.disk import Fault
from tocsin.testing.fault_script import Kind


class Flip(NamedTuple):
    """A bit that was turned, and the byte that it was in."""

    host: ClusterHost
    group: int
    name: str
    bit: int
    byte: bytes

    @property
    def is_there(self) -> bool:
        """Nobody has mended or removed it."""
        disk = self.host.disks[self.group]
        try:
            return disk.open(self.name).read(self.bit // 8, 1) != self.byte
        except FileNotFoundError:
            return False


class DiskFaults(FaultKinds):
    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._rots: dict[int, int] = {}
        """In each group topics' files rot on one member's disk, and the others have good copies."""
        self._flips: list[Flip] = []

    @property
    def rotten(self) -> bool:
        """Whether topics' files have damage that was not mended yet."""
        return any(flip.is_there for flip in self._flips)

    def kinds(self) -> dict[str, Kind]:
        return {
            "stall": self._stall, "slow_disk": self._slow_disk, "slow_votes": self._slow_votes,
            "fail_disk": self._fail_disk, "fill_disk": self._fill_disk, "rot": self._rot,
            "lose_disk": self._lose_disk, "lose_vote": self._lose_vote, "rot_topic": self._rot_topic,
        }  # fmt: skip

    def _stall(self, random: Random) -> str:
        host, seconds = random.choice(self.members()), 4.0 * random.random()
        host.speed.stalled_until = self.timeline.time + seconds
        return f"node {host.number} for {seconds:.3f} s"

    def _slow_disk(self, random: Random) -> str:
        host = random.choice(self.members())
        before, host.speed.seconds = host.speed.seconds, 0.2
        return f"node {host.number} for {self.later(random, setattr, host.speed, 'seconds', before):.3f} s"

    def _slow_votes(self, random: Random) -> str:
        """The files of some voters take long to write. Often of the one that proposes: its disk is the busiest."""
        many, take = random.choice((0.1, 0.5)), random.choice((0.1, 1.0, 4.0))
        hosts = [host for host in self.hosts() if random.random() < many]
        if random.random() < 0.5:
            hosts.append(self.proposer(random))
        for host in hosts:
            host.speed.votes_take = take
        seconds = self.later(random, self._end_slow_votes, hosts)
        return f"nodes {[host.number for host in hosts]}: up to {take} s each, for {seconds:.3f} s"

    @staticmethod
    def _end_slow_votes(hosts: list[ClusterHost]) -> None:
        for host in hosts:
            host.speed.votes_take = 0.0

    def _fail_disk(self, random: Random) -> str:
        """One of the next operations of a member's disk ends with an error, and with it the process (S3)."""
        host = random.choice(self.members())
        for disk in host.disks.values():
            disk.faults[disk.operations + random.randrange(6)] = Fault.FAIL
        return f"node {host.number}"

    def _fill_disk(self, random: Random) -> str:
        """Somebody else has written the disk full, up to a few bytes, and tidies up after a while."""
        host, room = random.choice(self.members()), random.choice((0, 2_000, 40_000))
        for disk in host.disks.values():
            if disk.capacity is None:
                disk.capacity = disk._used(disk._root) + room
        return f"node {host.number} up to {room} bytes, for {self.later(random, self.make_room, host):.3f} s"

    @staticmethod
    def make_room(host: ClusterHost) -> None:
        for disk in host.disks.values():
            disk.capacity = None

    # ---- what is not there any more

    def _lose_disk(self, random: Random) -> str:
        """Only of a member that others can replace, and one at a time."""
        candidates = [host for host in self.members() if self._is_spare(host)]
        if not candidates:
            return NOBODY
        host = random.choice(candidates)
        host.stop(power=True)
        host.lose_disks()
        self.timeline.after(random.random(), None, bring_up, host)
        return f"node {host.number}"

    def _lose_vote(self, random: Random) -> str:
        """The file of a voter is gone, while all others have theirs."""
        places = [
            (host, group)
            for host in self.hosts()
            for group in host.disks
            if host.up and len(self.world.groups[group].voters) > 2 and self._votes_are_whole(group)
        ]
        if not places:
            return NOBODY
        host, group = random.choice(places)
        replica = self._voters(group).get(host.number)
        host.stop(power=False)
        if VOTE in host.disks[group].list(""):
            host.disks[group].remove(VOTE)
            host.disks[group].sync_directory("")
            self.world.checks[group].vote_lost(replica)
        self.timeline.after(random.random(), None, bring_up, host)
        return f"node {host.number}, group {group}"

    def _rot(self, random: Random) -> str:
        """A bit turns in the journal of a member that others can replace; it is read when the node starts again."""
        candidates = [host for host in self.members() if self._is_spare(host)]
        if not candidates:
            return NOBODY
        host = random.choice(candidates)
        (group,) = host.node.members
        host.stop(power=False)
        disk = host.disks[group]
        names = [f"{SEGMENT_FOLDER}/{name}" for name in disk.list(SEGMENT_FOLDER) if name.endswith(".seg")]
        files = {name: disk.open(name) for name in names if name != RESERVE}
        written = {name: len(file.read(0, file.size()).rstrip(b"\0")) for name, file in files.items()}
        if any(written.values()):
            name = random.choice([name for name, length in written.items() if length])
            disk.flip(name, random.randrange(8 * written[name]))
        self.timeline.after(random.random(), None, bring_up, host)
        return f"node {host.number}"

    def _rot_topic(self, random: Random) -> str:
        """A bit turns in a retained topic's own file, while the node runs and another member has the same."""
        places = [
            (host, group, name)
            for host in self.members()
            for group in host.disks
            if host.up and self._has_copies(group) and self._rots.get(group, host.number) == host.number
            for name in _topic_files(host, group)
        ]
        if not places:
            return NOBODY
        host, group, name = random.choice(places)
        self._rots[group] = host.number
        disk = host.disks[group]
        bit = random.randrange(8 * disk.open(name).size())
        self._flips.append(Flip(host, group, name, bit, disk.open(name).read(bit // 8, 1)))
        disk.flip(name, bit)
        return f"node {host.number}, bit {bit} of {name}"

    def _has_copies(self, group: int) -> bool:
        """Every member is up and in sync."""
        checks = self.world.checks[group]
        leaders = [member.member.primary for member in checks.alive.values() if member.member.primary is not None]
        if len(leaders) != 1 or leaders[0].pending is not None:
            return False
        in_sync = {replica.node for replica in leaders[0].config.in_sync}
        return len(in_sync) > 1 and in_sync == set(checks.alive) == set(self.world.groups[group].members)

    def _is_spare(self, host: ClusterHost) -> bool:
        """A follower of a living primary whose in-sync set, now and next, has somebody else's disk, too."""
        if not host.up or len(host.node.members) != 1:
            return False
        (group,) = host.node.members
        checks = self.world.checks[group]
        config = checks.register.config
        leaders = [member.member.primary for member in checks.alive.values() if member.member.primary is not None]
        if host.node.members[group].member.primary is not None or len(leaders) != 1 or config is None:
            return False
        if checks.lost_in_sync() or not self._votes_are_whole(group):
            return False
        if any(flip.group == group and flip.host is not host and flip.is_there for flip in self._flips):
            return False
        others = set(self.world.groups[group].members) - {host.number}
        proposed = [each for each in checks.register.proposed if each.version > config.version]
        configs = [config, leaders[0].config, *([leaders[0].pending] if leaders[0].pending else []), *proposed]
        return all(others & {replica.node for replica in each.in_sync} for each in configs)

    def _votes_are_whole(self, group: int) -> bool:
        """Every voter counts, is up and has its file."""
        config = self.world.checks[group].register.config
        if config is None or len(config.voters) < len(self.world.groups[group].voters):
            return False
        return set(config.voters) <= set(self._voters(group).values())

    def _voters(self, group: int) -> dict[int, object]:
        found: dict[int, object] = {}
        for host in self.hosts():
            if host.up and group in host.node.members:
                voter = host.node.members[group].voter
                found[host.number] = voter.replica if voter is not None else None
            elif host.up and group in host.node.witnesses:
                found[host.number] = host.node.witnesses[group].replica
        return found


def _topic_files(host: ClusterHost, group: int) -> list[str]:
    disk = host.disks[group]
    folders = [f"{STREAM_FOLDER}/{stream}" for stream in disk.list(STREAM_FOLDER)]
    return [f"{folder}/{name}" for folder in folders for name in disk.list(folder) if name.endswith(".seg")]
