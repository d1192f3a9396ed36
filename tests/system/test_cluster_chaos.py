"""Faults of all kinds at random, several at a time, each node on a machine of its own: nothing is lost or doubled."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.system.cluster_load import load_at, running_cluster, spread, until, url_at, wait_for_load
from tests.system.load import Ledger, check
from tests.system.namespaces import Namespaces

from tocsin.cli.bench.cluster import OwnCluster

LONG_SECONDS = 300.0
MANAGERS = 2


@dataclass
class Chaos:
    """Makes a fault, lets some time pass, mends it, and waits until all is well."""

    cluster: OwnCluster
    network: Namespaces
    ledger: Ledger
    chance: random.Random

    def strike(self) -> str:
        name, strike = self.chance.choice(
            [("kill", self._kill), ("cut", self._cut), ("freeze", self._freeze), ("kill all", self._kill_all)]
        )
        return f"{name} {strike()}"

    def _names(self, most: int) -> list[str]:
        return self.chance.sample(self.cluster.names, self.chance.randint(1, most))

    def _some_time(self) -> None:
        time.sleep(self.chance.choice((0.05, 0.3, 1.0, 2.5)))

    def _kill(self) -> str:
        names = self._names(most=2)
        with self.ledger.fault():
            for name in names:
                self.cluster.kill(name)
        self._some_time()
        self.cluster.start(*names)
        return str(names)

    def _kill_all(self) -> str:
        with self.ledger.fault():
            for name in self.cluster.names:
                self.cluster.kill(name)
        self.cluster.start()
        return ""

    def _cut(self) -> str:
        names = self._names(most=len(self.cluster.names) - 1)
        with self.ledger.fault():
            self.network.isolate(names)
            self._some_time()
        self.network.heal()
        return str(names)

    def _freeze(self) -> str:
        names = self._names(most=2)
        with self.ledger.fault():
            for name in names:
                self.cluster.signal(name, signal.SIGSTOP)
            self._some_time()
        for name in names:
            self.cluster.signal(name, signal.SIGCONT)
        return str(names)


def strike_until(over: Callable[[int], bool], folder: Path, members: int, seed: int) -> int:
    names = [f"cm-{n + 1}" for n in range(MANAGERS)] + [f"mm-{n + 1}" for n in range(members)]
    struck: list[str] = []
    with (
        Namespaces(names) as network,
        running_cluster(folder, spread(network, MANAGERS, members), network) as cluster,
        load_at(network, "cm-1", url_at(cluster, "cm-1")) as (load, ledger),
    ):
        chaos = Chaos(cluster, network, ledger, random.Random(seed))
        while not over(len(struck)):
            wait_for_load(ledger, confirmed=chaos.chance.choice((1, 200)), settled=chaos.chance.choice((0, 50)))
            struck.append(chaos.strike())
            until(cluster, ledger, cluster.is_well, f"is well again after {struck[-1]}")
        load.finish()
    check(ledger)
    return len(struck)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("members", "seed"), [(2, 1), (3, 2)])
def test_a_few_faults_of_all_kinds(tmp_path: Path, members: int, seed: int) -> None:
    strike_until(lambda struck: struck >= 4, tmp_path, members, seed)


@pytest.mark.long
@pytest.mark.timeout(2 * LONG_SECONDS)
@pytest.mark.parametrize("members", [2, 3])
def test_many_faults_of_all_kinds(tmp_path: Path, members: int) -> None:
    end = time.monotonic() + LONG_SECONDS
    assert strike_until(lambda struck: time.monotonic() > end, tmp_path, members, seed=members) > 20
