"""R13 in real processes: who was in sync is gone for good, and an operator takes what is left."""

from __future__ import annotations

from pathlib import Path

from tests.system.clusters import ClusterProcesses
from tests.system.processes import PATIENCE, run_command, until

import tocsin

GROUP = "group-1"


def publish(cluster: ClusterProcesses, *bodies: str) -> None:
    with tocsin.connect(cluster.url) as connection, connection.session() as session:
        session.producer(session.queue("orders")).send_many(bodies)


def drained(cluster: ClusterProcesses) -> list[str]:
    with tocsin.connect(cluster.url) as connection, connection.session() as session:
        consumer = session.consumer(session.queue("orders"))
        first = consumer.receive(PATIENCE)
        rest = iter(lambda: consumer.receive(1.0), None)
        return [str(message.body) for message in (first, *rest) if message is not None]


def committed(cluster: ClusterProcesses, name: str) -> int:
    return max(report.committed_lsn for report in cluster.directory.last_words_of(name))


def test_a_member_that_is_not_in_sync_leads_when_an_operator_says_so(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster:
        cluster.wait_for(lambda seen: seen["well"], "all is well")
        both, one = [f"both {number}" for number in range(20)], [f"one {number}" for number in range(20)]
        publish(cluster, *both)
        old = cluster.group()["primary"]
        [left] = {"mm-1a", "mm-1b"} - {old}
        promotion = ("unclean-promote", left, GROUP, "--confirm")
        refused = run_command("cluster", *promotion, GROUP, "-C", str(cluster.folder))
        assert refused.returncode == 1 and f"is led by {old}".encode() in refused.stderr

        cluster.command("kill", left)
        before = committed(cluster, old)
        publish(cluster, *one)
        until(lambda: committed(cluster, old) > before + 1, "the primary says what it has", PATIENCE)
        cluster.command("kill", old)
        cluster.command("start", left)
        wrong = run_command("cluster", *promotion, "yes", "-C", str(cluster.folder))
        assert wrong.returncode == 2 and cluster.group()["primary"] is None
        told = cluster.command(*promotion, GROUP)
        assert told["missing"] >= 1 and told["lsn"] > 0
        assert cluster.group()["unclean_epoch"] == told["epoch"]
        publish(cluster, "after")
        with tocsin.connect(cluster.url) as connection:
            (group,) = connection.cluster_status()["groups"]
            assert (group["unclean_epoch"], group["unclean_lsn"]) == (told["epoch"], told["lsn"])
        assert drained(cluster) == [*both, "after"], "what only the other one had is lost"

        cluster.command("start", old)
        seen = cluster.wait_for(lambda seen: seen["well"], "the other one joins, and gives up what nobody else has")
        assert seen["groups"][0]["primary"] == left
        publish(cluster, "both again")
        assert drained(cluster) == ["both again"]
        cluster.check_logs()
