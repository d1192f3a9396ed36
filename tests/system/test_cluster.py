"""A cluster of real processes: nodes are killed under load, nothing is lost, and it heals."""

from __future__ import annotations

from pathlib import Path

from tests.system.clusters import ClusterProcesses
from tests.system.load import Load, check

import tocsin


def test_either_client_manager_reaches_everything(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster") as cluster:
        names = [f"queue-{number}" for number in range(8)]
        with tocsin.connect(cluster.url_of("cm-1")) as connection, connection.session() as session:
            for name in names:
                session.producer(session.queue(name)).send(f"to {name}")
        with tocsin.connect(cluster.url_of("cm-2")) as connection, connection.session() as session:
            for name in names:
                message = session.consumer(session.queue(name)).receive(timeout=10)
                assert message is not None and message.body == f"to {name}"
            listed = {each.name for each in connection.destinations()}
        assert set(names) <= listed
        assert all(group["destinations"] for group in cluster.wait_for(lambda s: s["well"], "all is well")["groups"])
        assert cluster.command("down") == {"stopped": cluster.directory.names, "killed": []}
        cluster.check_logs()


def test_a_primary_dies_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster:
        load = Load(cluster.url)
        with load.running() as ledger:
            ledger.wait_for(lambda: ledger.confirmations > 500 and len(ledger.acknowledged) > 100, "there is load")
            primary = cluster.group()["primary"]
            ledger.killed()
            cluster.command("kill", primary)
            already = ledger.confirmations
            cluster.wait_for(lambda seen: seen["groups"][0]["primary"] not in (None, primary), "another one leads")
            ledger.wait_for(lambda: ledger.confirmations > already + 500, "it goes on")
            cluster.command("start", primary)
            cluster.wait_for(lambda seen: seen["well"], "the old one is in sync again")
            ledger.wait_for(lambda: ledger.confirmations > already + 1_000, "it goes on")
            load.finish()
        check(ledger)
        group = cluster.group()
        assert group["primary"] != primary and set(group["in_sync"]) == {"mm-1a", "mm-1b"}
        assert len(cluster.command("down")["stopped"]) == 4
        cluster.check_logs()
