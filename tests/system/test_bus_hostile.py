"""A cluster of real processes while a stranger and a node with the secret send it everything that they should not."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.system.cluster_load import PAUSE_SECONDS
from tests.system.clusters import ClusterProcesses
from tests.system.ledger import check
from tests.system.load import Load

import tocsin

SECONDS = 60.0
SETTLED_SECONDS = 15.0
"""By then all windows, caches and books that the attack fills are full."""
GROWTH_BYTES_MAX = 48 << 20
HOSTILE, NEWCOMER = "cm-2", "cm-3"
STAYS = ("cm-1", "mm-1a", "mm-1b")
ROOT = Path(__file__).parents[2]


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_nobody_on_the_bus_stops_a_node_or_keeps_one_out(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1", "--client-managers", "3") as cluster:
        for name in (HOSTILE, NEWCOMER):
            cluster.command("kill", name)
        directory = cluster.directory
        pids = {name: directory.process(name).pid() for name in STAYS}
        load = Load(cluster.url_of("cm-1"), lead_max=500, pause_s=PAUSE_SECONDS)
        with load.running() as ledger:
            ledger.wait_for(lambda: ledger.confirmations > 200, "there is load")
            attack = subprocess.Popen(
                [sys.executable, "-m", "tests.system.hostile_bus", str(cluster.folder), HOSTILE, str(SECONDS)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                time.sleep(SETTLED_SECONDS)
                settled = {name: resident_bytes(pid) for name, pid in pids.items() if pid}
                directory.start(NEWCOMER)
                directory.wait_until_started(NEWCOMER)
                joins(cluster)
                assert attack.poll() is None, "it joins while the attack goes on"
                already = ledger.confirmations
                ledger.wait_for(lambda: ledger.confirmations > already + 200, "work goes on")
                said, _ = attack.communicate(timeout=SECONDS + 60)
                grown = {name: resident_bytes(pid) - settled[name] for name, pid in pids.items() if pid}
            finally:
                attack.kill()
                attack.wait()
            already = ledger.confirmations
            ledger.wait_for(lambda: ledger.confirmations > already + 200, "work goes on")
            load.finish()
        check(ledger)
        assert {name: directory.process(name).pid() for name in STAYS} == pids, cluster.logs()
        assert all(growth < GROWTH_BYTES_MAX for growth in grown.values()), grown
        was_heard(cluster, json.loads(said))
        assert "The node stops" not in cluster.logs(), cluster.logs()


def joins(cluster: ClusterProcesses) -> None:
    """The newcomer serves a client: it has found the group, and the group it."""
    with tocsin.connect(cluster.url_of(NEWCOMER)) as connection, connection.session() as session:
        session.producer(session.queue("from.the.newcomer")).send("here")
        message = session.consumer(session.queue("from.the.newcomer")).receive(timeout=20)
        assert message is not None and message.body == "here"


def was_heard(cluster: ClusterProcesses, said: dict[str, dict[str, int]]) -> None:
    """The attack was one: everything was sent, and what it met is counted."""
    sent = said["sent"]
    for kind in ("garbage", "cut", "changed", "repeated", "coalesced", "forged", "unknown", "version"):
        assert sent[kind] > 500, sent
    for kind in ("inner", "status", "acknowledgement", "request", "chunk"):
        assert sent[f"sealed {kind}"] > 30, sent
    assert said["met"], "the node with the secret has found the others"
    assert len([kind for kind in sent if kind.startswith("message ")]) > 20, sent

    statuses = [cluster.directory.status_of(name) for name in STAYS]
    found = Counter[str]()
    for status in statuses:
        assert status is not None
        found.update(status.bus)
    for counter in ("foreign", "forged", "unknown", "replayed", "malformed", "stale"):
        assert found[counter] > 100, found
