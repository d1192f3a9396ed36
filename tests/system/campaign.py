"""A campaign of faults on a real cluster, drawn from a seed: after each round all is mended, drained and checked.

Every node is a process on a machine of its own (a network namespace) with a small disk of its own; clients are on
another machine and reach the cluster through both client managers. What is struck and when is written down, so that a
failing round says what led to it.
"""

from __future__ import annotations

import random
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.certificates import Authority, add_user
from tests.system.cluster_load import made_cluster, running_at, spread, started, wait_for_load
from tests.system.disks import small_disks
from tests.system.faults import CLIENTS, FAULTS, Scene
from tests.system.full_load import FullLoad, check_accounts
from tests.system.ledger import Ledger, check_round
from tests.system.namespaces import Namespaces

from tocsin.cli.bench.cluster import OwnCluster

MANAGERS = ("cm-1", "cm-2")
USER, PASSWORD = "campaign", "nemesis"
# Segments are small, so that even little load fills some; and what is read is read from disk.
SETTINGS = {"segment_bytes": 640 * 1024, "max_message_bytes": 32 * 1024, "cache_bytes": 0}
LEAD_MAX = 2_000
PAUSE_SECONDS = 0.05
DRAIN_SECONDS_MAX = 60.0
FAULTS_PER_ROUND = 3


@dataclass
class Campaign:
    scene: Scene
    load: FullLoad
    began: float = field(default_factory=time.monotonic)
    struck: Counter[str] = field(default_factory=Counter)
    diary: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """At most one: the first ends the campaign."""

    @property
    def ledger(self) -> Ledger:
        return self.load.ledger

    def round(self, kinds: Sequence[str]) -> None:
        """Faults one after the other; then all is well, everything confirmed comes, and the history is right."""
        try:
            for kind in kinds:
                self._strike(kind)
            at = self._now()
            self.load.rest(DRAIN_SECONDS_MAX)
            check_round(self.ledger)
            kept_from = self.scene.inside(lambda: check_accounts(self.load, DRAIN_SECONDS_MAX))
            self.scene.cluster.check_alive()
            self.ledger.settle(kept_from)
            self.load.resume()
            self._note(f"drained and right after {self._now() - at:.1f} s")
        except Exception as error:
            self.violations.append(str(error))
            raise AssertionError(f"{self}") from error

    def _strike(self, kind: str) -> None:
        chance = self.scene.chance
        wait_for_load(self.ledger, confirmed=chance.choice((1, 200)), settled=chance.choice((0, 50)))
        at = self._now()
        self._note(kind)
        what = FAULTS[kind](self.scene)
        self.diary[-1] += f": {what}; took {self._now() - at:.1f} s"
        self.struck[kind] += 1
        at = self._now()
        self.scene.mend()
        self.scene.until_well(kind)
        self.diary[-1] += f", well after {self._now() - at:.1f} s"

    def _now(self) -> float:
        return time.monotonic() - self.began

    def _note(self, what: str) -> None:
        self.diary.append(f"{self._now():7.1f} s  {what}")

    def summary(self) -> str:
        ledger, took = self.ledger, self._now()
        faults = ", ".join(f"{kind} {times}" for kind, times in sorted(self.struck.items()))
        answers = ", ".join(f"{what} {times}" for what, times in sorted(ledger.answers.items()))
        return (
            f"{self.struck.total()} faults in {took:.0f} s: {faults}\n"
            f"{ledger.confirmations:,} confirmed sends, {ledger.deliveries:,} deliveries; requests: {answers}\n"
            f"{len(self.violations)} violations"
        )

    def __str__(self) -> str:
        return "\n".join((*self.diary, *self.violations, self.summary()))


@contextmanager
def campaign(folder: Path, members: int, seed: int) -> Iterator[Campaign]:
    """A cluster of two client managers and a group, and the load; at the end none has stumbled, and none is left."""
    names = [*MANAGERS, *(f"mm-{number}" for number in range(1, members + 1))]
    authority = Authority(folder, "authority")
    with Namespaces([*names, CLIENTS]) as network:
        certificate = authority.issue(network.address(MANAGERS[0]), "campaign")
        users = folder / "users"
        add_user(users, USER, PASSWORD)
        secured = {"users_file": users, "tls_cert": certificate.certificate, "tls_key": certificate.key}
        settings = {**SETTINGS, **{setting: str(path) for setting, path in secured.items()}}
        make = spread(network, len(MANAGERS), members, is_open=True)
        cluster = made_cluster(folder, make, network, **settings)
        with small_disks(cluster) as disks, started(cluster):
            login = {"ssl": _trusting(authority), "user": USER, "password": PASSWORD}
            load = FullLoad(_url(cluster), LEAD_MAX, PAUSE_SECONDS, login)
            with running_at(network, CLIENTS, load):
                yield Campaign(Scene(cluster, network, disks, load, random.Random(seed)), load)
                load.finish()


def _url(cluster: OwnCluster) -> str:
    return "tocsins://" + ",".join(str(node.client) for node in cluster.config.client_managers)


def _trusting(authority: Authority) -> ssl.SSLContext:
    """Both client managers show the same certificate, so its name is not looked at."""
    context = ssl.create_default_context(cafile=str(authority.path))
    context.check_hostname = False
    return context


def decks(chance: random.Random, size: int) -> Iterator[list[str]]:
    """All kinds of faults in random order, again and again, in rounds of this size."""
    while True:
        deck = list(FAULTS)
        chance.shuffle(deck)
        yield from (deck[first : first + size] for first in range(0, len(deck), size))


def run(folder: Path, members: int, seed: int, over: Callable[[Campaign], bool], tell: Callable[[str], None]) -> None:
    """Round after round until it is over; `tell` hears the summary, also of a campaign that failed."""
    with campaign(folder, members, seed) as running:
        try:
            for kinds in decks(running.scene.chance, FAULTS_PER_ROUND):
                if over(running):
                    break
                running.round(kinds)
        finally:
            tell(running.summary())
