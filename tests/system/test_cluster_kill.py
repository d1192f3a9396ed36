"""Every node of a cluster is killed in turn under load: nothing confirmed is lost, nothing comes twice unmarked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.system.cluster_load import LEAD_MAX, PAUSE_SECONDS, running_cluster, until, wait_for_load
from tests.system.ledger import Ledger, check
from tests.system.load import Load

from tocsin.cli.bench.cluster import OwnCluster, shaped

FAULTS = 20
SEED = 20_177


def victim(cluster: OwnCluster, turn: int) -> str:
    """Primary, backup, one client manager, the other one, and so on."""
    primary = cluster.primary()
    assert primary is not None
    backup = next(name for name in cluster.members if name != primary)
    managers = [node.name for node in cluster.config.client_managers]
    return [primary, backup, *managers][turn % (2 + len(managers))]


def kill_and_restart(cluster: OwnCluster, ledger: Ledger, name: str, *, at_once: bool) -> None:
    """At once, or when the others have noticed and go on without it."""
    before = cluster.leading_report()
    cluster.kill(name)
    if not at_once and name in cluster.members:
        until(cluster, ledger, lambda: goes_on_without(cluster, name, before.version), f"goes on without {name}")
        wait_for_load(ledger, confirmed=200)
    cluster.start(name)
    until(cluster, ledger, cluster.is_well, f"is well again after {name} was killed")


def goes_on_without(cluster: OwnCluster, name: str, version: int) -> bool:
    primary = cluster.primary()
    report = None if primary in (None, name) else cluster.report(str(primary))
    return report is not None and report.version > version and cluster.config.node(name).number not in report.in_sync


@pytest.mark.long
@pytest.mark.timeout(240)
def test_nothing_confirmed_is_lost_when_nodes_are_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with running_cluster(tmp_path, shaped(2, 2, "fast")) as cluster:
        load = Load(cluster.url, lead_max=LEAD_MAX, pause_s=PAUSE_SECONDS)
        epoch = cluster.leading_report().epoch
        with load.running() as ledger:
            for turn in range(FAULTS):
                wait_for_load(ledger, chance.choice((1, 100, 400)), chance.choice((0, 20, 100)))
                kill_and_restart(cluster, ledger, victim(cluster, turn), at_once=turn // 4 % 2 == 0)
            load.finish()
        check(ledger)
        assert ledger.confirmations > FAULTS * 100
        assert any(each.redelivered for seen in ledger.seen.values() for each in seen)
        assert cluster.leading_report().epoch >= epoch + FAULTS // 4 // 2
