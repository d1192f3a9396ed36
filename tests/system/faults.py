"""The faults of a campaign: each strikes a cluster that is well, and says whom it has struck.

Only what a group has promised to survive: two members and their witness any one of the three, three members any one of
them; all of them, as long as their disks come back. What a fault has cut, stopped, filled or killed is mended
afterwards by `Scene.mend`, as an operator would do it.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.system.cluster_load import until, wait_for_load
from tests.system.disks import Disks
from tests.system.ledger import Ledger
from tests.system.load import QUEUE, Load
from tests.system.namespaces import Namespaces
from tests.system.processes import PATIENCE
from tests.system.processes import until as wait_until

from tocsin import errors
from tocsin.cli.bench.cluster import OwnCluster
from tocsin.model.limits import SESSION_GRACE_SECONDS

CLIENTS = "clients"
"""The machine of the applications."""
ANSWER_SECONDS = 3.0
MOMENTS = (0.05, 0.3, 1.0, 2.5)
"""Shorter and longer than a lease and a fail-over of the fast profile."""
BEYOND_GRACE_SECONDS = SESSION_GRACE_SECONDS + 1.0


T = TypeVar("T")


@dataclass
class Scene:
    cluster: OwnCluster
    network: Namespaces
    disks: Disks
    load: Load
    chance: random.Random
    may_end: dict[str, Callable[[str], None]] = field(default_factory=dict)
    """Nodes that end by themselves in this fault, and rightly so; and what is done before they are started again."""
    rotten: str | None = None
    """Who may have damage in its files that nobody has found yet. Until its disk is new no other disk is struck: the
    last good copy of something may be there.
    """

    @property
    def ledger(self) -> Ledger:
        return self.load.ledger

    @property
    def names(self) -> list[str]:
        return self.cluster.names

    @property
    def members(self) -> Sequence[str]:
        return self.cluster.members

    @property
    def witness(self) -> str | None:
        return next(iter(self.cluster.config.groups[0].witnesses), None)

    def primary(self) -> str:
        name = self.cluster.primary()
        assert name is not None, "a cluster that is well has a primary"
        return name

    def inside(self, work: Callable[[], T]) -> T:
        """On the machine of the clients."""
        return self.network.inside(CLIENTS, work)

    def serves(self) -> bool:
        """Whether clients get an answer from the group."""

        def ask() -> bool:
            try:
                with self.load.connect(connect_timeout=ANSWER_SECONDS, answer_timeout=ANSWER_SECONDS) as connection:
                    return bool(connection.show_destination(f"queue:{QUEUE}"))
            except errors.TocsinError:
                return False

        return self.inside(ask)

    def kill(self, *names: str) -> None:
        for name in names:
            self.cluster.kill(name)

    def start(self, *names: str) -> None:
        self.cluster.start(*names)

    def pass_time(self, *moments: float) -> None:
        time.sleep(self.chance.choice(moments or MOMENTS))

    def until_well(self, what: str) -> None:
        """By what every node says from now on: a moment ago it may not have known yet what had struck it."""
        began = time.time()

        def is_well() -> bool:
            said = [self.cluster.status(name) for name in self.names]
            return all(each is not None and each.time > began for each in said) and self.cluster.is_well()

        until(self.cluster, self.ledger, is_well, f"is well again after {what}")

    def lose_disk(self, name: str) -> None:
        """Of a node that the others can do without: they serve when it is gone, so they have all that was confirmed."""
        self.kill(name)
        wait_until(self.serves, f"the others serve without {name}", 2 * PATIENCE)
        self.renew_disk(name)

    def renew_disk(self, name: str) -> None:
        self.disks.lose(name)
        if name == self.rotten:
            self.rotten = None

    def whose_disk(self, *others: str | None) -> str:
        """Whose disk is struck: of a member, or of one of the others."""
        name = self.chance.choice([*self.members, *filter(None, others)])
        return name if name in others else self.rotten or name

    def mend(self) -> None:
        """Everything runs, hears everybody, and has room."""
        self.network.heal()
        self.disks.free()
        for name in self.names:
            if self.cluster.has_ended(name):
                self._pick_up(name)
        stopped = [name for name in self.names if not self.cluster.is_running(name)]
        if stopped:
            self.start(*stopped)
        self.may_end.clear()

    def _pick_up(self, name: str) -> None:
        assert name in self.may_end, f"{name} ended by itself.{self.cluster.last_words(name)}"
        self.cluster.kill(name)
        self.may_end[name](name)


Fault = Callable[[Scene], str]


def kill_one(scene: Scene) -> str:
    return _kill(scene, [scene.chance.choice(scene.names)])


def kill_two(scene: Scene) -> str:
    return _kill(scene, scene.chance.sample(scene.names, 2))


def kill_primary(scene: Scene) -> str:
    return _kill(scene, [scene.primary()])


def kill_all(scene: Scene) -> str:
    return _kill(scene, scene.names)


def _kill(scene: Scene, names: Sequence[str]) -> str:
    scene.kill(*names)
    scene.pass_time()
    scene.start(*names)
    return ", ".join(names)


def die_in_turn(scene: Scene) -> str:
    """Each member dies when the one before is back, so that in the end nobody has lived through it all."""
    order = scene.chance.sample(scene.members, len(scene.members))
    for name in order:
        scene.kill(name)
        scene.pass_time(0.3, 1.0)
        wait_for_load(scene.ledger, confirmed=50)
        scene.start(name)
        scene.until_well(f"the death of {name}")
    return ", ".join(order)


def kill_during_catch_up(scene: Scene) -> str:
    """A member that is being filled dies, or the one that fills it."""
    name = scene.whose_disk()
    scene.lose_disk(name)
    wait_for_load(scene.ledger, confirmed=100)
    scene.start(name)
    number = scene.cluster.config.node(name).number

    def fills() -> bool:
        report = scene.cluster.report(name)
        return report is not None and number not in report.in_sync

    wait_until(lambda: fills() or scene.cluster.is_well(), f"{name} is being filled")
    victim = scene.chance.choice([name, scene.primary()]) if scene.cluster.primary() else name
    scene.kill(victim)
    scene.pass_time(0.05, 0.3)
    scene.start(victim)
    return f"{victim} while {name} was filled"


def pause_short(scene: Scene) -> str:
    return _pause(scene, scene.chance.randint(1, 2), 0.05, 0.2)


def pause_beyond_lease(scene: Scene) -> str:
    return _pause(scene, 1, 1.0, 2.5)


def pause_beyond_grace(scene: Scene) -> str:
    return _pause(scene, 1, BEYOND_GRACE_SECONDS)


def pause_all(scene: Scene) -> str:
    return _pause(scene, len(scene.names), 0.3, 1.0)


def _pause(scene: Scene, count: int, *moments: float) -> str:
    names = scene.chance.sample(scene.names, count)
    for name in names:
        scene.cluster.signal(name, signal.SIGSTOP)
    scene.pass_time(*moments)
    for name in names:
        scene.cluster.signal(name, signal.SIGCONT)
    return ", ".join(names)


def cut_one_way(scene: Scene) -> str:
    """One does not hear another, does not hear anybody, or is not heard by anybody."""
    one, other = scene.chance.sample(scene.names, 2)
    others = [name for name in scene.names if name != one]
    shape = scene.chance.choice(("pair", "deaf", "mute"))
    pairs = {
        "pair": [(one, other)],
        "deaf": [(one, name) for name in others],
        "mute": [(name, one) for name in others],
    }[shape]
    return _cut(scene, pairs, f"{shape} {one}" + (f" to {other}" if shape == "pair" else ""))


def cut_halves(scene: Scene) -> str:
    side = scene.chance.sample(scene.names, scene.chance.randint(1, len(scene.names) - 1))
    return _cut(scene, _between(side, _rest(scene.names, side)), f"{', '.join(side)} | the rest")


def cut_primary(scene: Scene) -> str:
    primary = scene.primary()
    return _cut(scene, _between([primary], _rest(scene.names, [primary])), primary)


def cut_bridge(scene: Scene) -> str:
    """Two sides that only one node hears both of."""
    order = scene.chance.sample(scene.names, len(scene.names))
    bridge, middle = order[0], (len(order) + 1) // 2
    left, right = order[1:middle], order[middle:]
    return _cut(scene, _between(left, right), f"{', '.join(left)} | {', '.join(right)}, and {bridge} hears all")


def cut_ring(scene: Scene) -> str:
    """Everybody hears the two neighbours in a ring, and so a majority, but nobody the same one."""
    ring = scene.chance.sample(scene.names, len(scene.names))
    size = len(ring)
    pairs = [
        (ring[a], ring[b]) for a in range(size) for b in range(size) if a != b and (a - b) % size not in (1, size - 1)
    ]
    return _cut(scene, pairs, ", ".join(ring))


def cut_flapping(scene: Scene) -> str:
    """A wire that comes and goes at about the time of a lease."""
    one = scene.chance.choice(scene.members)
    for _ in range(4):
        scene.network.cut(_between([one], _rest(scene.names, [one])))
        scene.pass_time(0.1, 0.3)
        scene.network.heal()
        scene.pass_time(0.1, 0.3)
    return one


def _rest(names: Iterable[str], side: Sequence[str]) -> list[str]:
    return [name for name in names if name not in side]


def _between(left: Sequence[str], right: Sequence[str]) -> list[tuple[str, str]]:
    return [pair for a in left for b in right for pair in ((a, b), (b, a))]


def _cut(scene: Scene, pairs: Sequence[tuple[str, str]], what: str) -> str:
    scene.network.cut(pairs)
    scene.pass_time()
    scene.network.heal()
    return what


def fill_disk(scene: Scene) -> str:
    """Of one node, or of all. Publishing is refused or goes on elsewhere; nobody ends."""
    names = scene.chance.choice([[scene.primary()], [scene.chance.choice(scene.members)], scene.names])
    for name in names:
        scene.disks.fill(name)
    scene.pass_time(1.0, 2.0)
    return ", ".join(names)


def fail_over_with_full_disks(scene: Scene) -> str:
    """Votes and promises need no room that is not there."""
    old = scene.primary()
    for name in scene.names:
        scene.disks.fill(name)
    scene.pass_time(0.3, 1.0)
    scene.kill(old)
    # Nodes can't write down who leads, so a client is asked.
    wait_until(scene.serves, "somebody serves with full disks", 2 * PATIENCE)
    return old


def fail_sync(scene: Scene) -> str:
    """The disk reports an error when a member syncs: it can't know what is on disk, so it ends and is started again."""
    name = scene.chance.choice(scene.members)
    inject = ["-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO:when=1"]
    command = ["strace", "-f", "-qq", "-o", "/dev/null", *inject, "-p", str(scene.cluster.pid(name))]
    scene.may_end[name] = lambda name: None
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: scene.cluster.has_ended(name), f"{name} ends after an error of its disk", 2 * PATIENCE)
    finally:
        tracer.terminate()
        tracer.wait(PATIENCE)
    return name


def flip_journal(scene: Scene) -> str:
    """A bit in the log of a member that does not run."""
    name = scene.rotten = scene.whose_disk()
    return _flip(scene, name, "journal/*.seg", "snapshots/*", "meta", "promise")


def flip_vote(scene: Scene) -> str:
    return _flip(scene, scene.whose_disk(scene.witness), "vote")


def _flip(scene: Scene, name: str, *patterns: str) -> str:
    scene.kill(name)
    path = scene.chance.choice(scene.disks.files(name, *patterns))
    what = scene.disks.flip(path, scene.chance)
    # So the guide says: a node that finds its files damaged starts with an empty disk, and is filled.
    scene.may_end[name] = scene.renew_disk
    scene.start(name)
    wait_until(lambda: scene.cluster.has_ended(name) or scene.cluster.is_well(), f"{name} has found out", 2 * PATIENCE)
    return f"{what} of {name}"


def flip_retained(scene: Scene) -> str:
    """A bit in a retained topic's file of the primary, which goes on running and is read afterwards, or of who has rot
    already.
    """
    name = scene.rotten = scene.rotten or scene.primary()
    wait_until(lambda: bool(scene.disks.files(name, "streams/*/*.seg")), "there is a file of the retained topic")
    path = scene.chance.choice(scene.disks.files(name, "streams/*/*.seg"))
    return f"{scene.disks.flip(path, scene.chance)} of {name}"


def lose_disk(scene: Scene) -> str:
    name = scene.whose_disk(scene.witness)
    scene.lose_disk(name)
    scene.pass_time(0.05, 1.0)
    scene.start(name)
    return name


def restore_old_copy(scene: Scene) -> str:
    """A member comes back with a copy of itself that is older than what it has confirmed since."""
    name = scene.whose_disk()
    scene.kill(name)
    kept = scene.disks.copy(name)
    scene.start(name)
    scene.until_well(f"{name} was copied")
    wait_for_load(scene.ledger, confirmed=200)
    victims = scene.chance.choice([scene.names, [name]])
    scene.kill(*victims)
    scene.disks.restore(name, kept)
    # The old copy has all the time to do harm before the others are there.
    scene.start(name)
    scene.pass_time(0.05, 1.0)
    others = _rest(victims, [name])
    if others:
        scene.start(*others)
    return f"{name}, {'all were' if others else 'it alone was'} killed"


FAULTS: dict[str, Fault] = {
    "kill one": kill_one,
    "kill primary": kill_primary,
    "kill two": kill_two,
    "kill all": kill_all,
    "deaths in turn": die_in_turn,
    "kill during catch-up": kill_during_catch_up,
    "pause, short": pause_short,
    "pause beyond the lease": pause_beyond_lease,
    "pause beyond the grace": pause_beyond_grace,
    "pause all": pause_all,
    "cut one way": cut_one_way,
    "cut in two": cut_halves,
    "cut off the primary": cut_primary,
    "cut to a bridge": cut_bridge,
    "cut to a ring": cut_ring,
    "cut and heal": cut_flapping,
    "full disk": fill_disk,
    "fail-over with full disks": fail_over_with_full_disks,
    "failed sync": fail_sync,
    "flipped bit in a journal": flip_journal,
    "flipped bit in a vote": flip_vote,
    "flipped bit in a retained topic": flip_retained,
    "lost disk": lose_disk,
    "old copy": restore_old_copy,
}
