"""A cluster of real processes: nodes are killed under load, nothing is lost, and it heals."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.node.cluster_drafts import write
from tests.system.clusters import ClusterProcesses
from tests.system.ledger import check
from tests.system.load import Load
from tests.system.processes import PATIENCE, free_port, run_command, until

import tocsin
from tocsin.node.cluster_secret import fingerprint, new_secret, write_secret

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"


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
        seen = cluster.command("status")
        assert seen["well"] and all(group["destinations"] for group in seen["groups"])
        asked = cluster.command("status", "--url", cluster.url_of("cm-2"))
        assert [group["primary"] for group in asked["groups"]] == [group["primary"] for group in seen["groups"]]
        assert asked["well"] and {node["name"] for node in asked["nodes"]} >= {"cm-2", "mm-1a", "mm-2b"}
        assert cluster.command("down") == {"stopped": cluster.directory.names, "killed": []}
        cluster.check_logs()


@pytest.mark.long
def test_a_primary_dies_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster:
        load = Load(cluster.url)
        with load.running() as ledger:
            ledger.wait_for(lambda: ledger.confirmations > 500 and ledger.acknowledgements > 100, "there is load")
            primary = cluster.group()["primary"]
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


@pytest.mark.long
def test_a_client_manager_dies_and_its_clients_go_on_at_another(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster:
        load = Load(cluster.url)
        with load.running() as ledger:
            ledger.wait_for(lambda: ledger.confirmations > 500 and ledger.acknowledgements > 100, "there is load")
            cluster.command("kill", "cm-1")
            already = ledger.confirmations
            ledger.wait_for(lambda: ledger.confirmations > already + 500, "it goes on")
            cluster.command("start", "cm-1")
            cluster.wait_for(lambda seen: seen["well"], "all is well")
            load.finish()
        check(ledger)
        cluster.check_logs()


def test_a_drained_node_hands_over_and_its_clients_notice_nothing(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster:
        load = Load(cluster.url)
        with load.running() as ledger:
            ledger.wait_for(lambda: ledger.confirmations > 500 and ledger.acknowledgements > 100, "there is load")
            primary = cluster.group()["primary"]
            for name in (primary, "cm-1"):
                assert cluster.command("drain", name) == {"node": name, "state": "stopped"}
                cluster.command("start", name)
                cluster.wait_for(lambda seen: seen["well"], "all is well")
            load.finish()
        check(ledger)
        assert cluster.group()["primary"] is not None
        cluster.check_logs()


def test_nodes_that_are_everything_at_once(tmp_path: Path) -> None:
    """Three machines, each a client manager and a member of three groups: any one may die."""
    draft = local_draft(tmp_path, EXAMPLES / "three-hosts.toml")
    with ClusterProcesses(tmp_path / "cluster", "--config", str(draft)) as cluster:
        with tocsin.connect(cluster.url) as connection, connection.session() as session:
            producers = [session.producer(session.queue(f"queue-{number}")) for number in range(6)]
            for round_number in range(3):
                for producer in producers:
                    producer.send(f"round {round_number}")
                if round_number == 1:
                    cluster.command("kill", "two")
            for number in range(6):
                consumer = session.consumer(session.queue(f"queue-{number}"))
                assert [body_of(consumer) for _ in range(3)] == ["round 0", "round 1", "round 2"]
        cluster.command("start", "two")
        cluster.wait_for(lambda seen: seen["well"], "all is well")
        cluster.check_logs()


def body_of(consumer: tocsin.Consumer) -> object:
    message = consumer.receive(timeout=20)
    assert message is not None
    return message.body


def local_draft(folder: Path, example: Path) -> Path:
    """An example with all its machines on this one."""
    hosts = {f"10.0.0.{last}": number for number, last in enumerate((10, 11, 12, 13))}
    port = f"port = {free_port()}"
    lines = []
    for line in example.read_text().splitlines():
        for host, number in hosts.items():
            if line.startswith("addresses") and host in line:
                line = f'addresses = {{ lan = "127.0.0.1" }}\nbus_port = {free_port() + number}'
            elif line.startswith("client") and host in line:
                line = f'client = "127.0.0.1:{free_port()}"'
        lines.append(line.replace("port = 7400", port).replace("mtu = 9000", "mtu = 65536"))
    return write(folder, "\n".join(lines), "draft.toml")


def test_a_node_with_another_cluster_file_stops_and_one_with_another_secret_says_that_it_is_alone(
    tmp_path: Path,
) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1", "--client-managers", "1") as cluster:
        cluster.command("kill", "mm-1b")
        folder, shared = cluster.folder / "nodes" / "mm-1b", (cluster.folder / "cluster.toml").read_text()
        write(folder, shared.replace('profile = "default"', 'profile = "fast"'), "other.toml")
        own = (folder / "node.toml").read_text()
        stray = write(folder, own.replace("../../cluster.toml", "other.toml"), "stray.toml")
        done = run_command("node", "--config", str(stray))
        assert done.returncode == 1
        assert 'runs with another cluster file: it has not our line `profile = "fast"`' in done.stderr.decode()
        secret = new_secret()
        write_secret(folder / "secret", secret)
        mark = cluster.directory.config.secret_fingerprint
        write(folder, shared.replace(mark, fingerprint(secret)), "other.toml")
        write(folder, own.replace("../../cluster.toml", "other.toml").replace("../../secret", "secret"), "node.toml")
        cluster.command("start", "mm-1b")
        until(lambda: "not sealed with this cluster's secret" in (folder / "log").read_text(), "it says so")
        cluster.wait_for(lambda seen: any(node["forged"] for node in seen["nodes"][:2]), "the others count it, too")
        assert cluster.group()["primary"] == "mm-1a"


def test_up_in_a_terminal_stops_its_nodes_when_it_is_interrupted(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path / "cluster", "--groups", "1", "--members", "1", "--client-managers", "1")
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "tocsin.cli.main", "cluster", "up", "-C", str(cluster.folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as running:
            try:
                assert running.stdout is not None
                assert running.stdout.readline().startswith(b"group\tgroup-1\twell\tmm-1a")
                running.send_signal(signal.SIGINT)
                assert running.wait(PATIENCE) == 0
            finally:
                running.kill()
        assert {node["state"] for node in cluster.status()["nodes"]} == {"stopped"}
    finally:
        cluster.kill_all()


def test_a_lost_disk_is_filled_by_the_others(tmp_path: Path) -> None:
    """Of the primary, which comes back as a new replica; then the one that filled it may die."""
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1", "--client-managers", "1") as cluster:
        with tocsin.connect(cluster.url) as connection, connection.session() as session:
            producer = session.producer(session.queue("orders"))
            producer.send_many([f"order {number}" for number in range(300)])
            cluster.command("kill", "mm-1a")
            producer.send_many([f"order {number}" for number in range(300, 600)])
            shutil.rmtree(cluster.folder / "nodes" / "mm-1a" / "data")
            cluster.command("start", "mm-1a")
            cluster.wait_for(lambda seen: seen["well"], "the new disk is in sync")
            cluster.command("kill", "mm-1b")
            consumer = session.consumer(session.queue("orders"))
            assert [body_of(consumer) for _ in range(600)] == [f"order {number}" for number in range(600)]
        cluster.wait_for(lambda seen: seen["groups"][0]["primary"] == "mm-1a", "the filled one leads")
        cluster.check_logs()


@pytest.mark.long
def test_a_frozen_primary_wakes_up_in_another_world(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster:
        load = Load(cluster.url)
        with load.running() as ledger:
            ledger.wait_for(lambda: ledger.confirmations > 500 and ledger.acknowledgements > 100, "there is load")
            primary = cluster.group()["primary"]
            cluster.directory.process(primary).signal(signal.SIGSTOP)
            cluster.wait_for(lambda seen: seen["groups"][0]["primary"] not in (None, primary), "another one leads")
            already = ledger.confirmations
            ledger.wait_for(lambda: ledger.confirmations > already + 500, "it goes on")
            cluster.directory.process(primary).signal(signal.SIGCONT)
            cluster.wait_for(lambda seen: seen["well"], "all is well")
            load.finish()
        check(ledger)
        cluster.check_logs()


@pytest.mark.long
def test_a_power_failure_of_everything_loses_nothing(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster") as cluster:
        names = [f"queue-{number}" for number in range(4)]
        with tocsin.connect(cluster.url) as connection, connection.session() as session:
            for name in names:
                session.producer(session.queue(name)).send_many([f"{name} {number}" for number in range(100)])
            cluster.kill_all()
            assert not cluster.status()["well"]
            cluster.command("up", "--detach")
            for name in names:
                consumer = session.consumer(session.queue(name))
                assert [body_of(consumer) for _ in range(100)] == [f"{name} {number}" for number in range(100)]
        cluster.check_logs()


def test_a_network_without_multicast_and_a_witness_that_decides(tmp_path: Path) -> None:
    draft = local_draft(tmp_path, EXAMPLES / "two-hosts.toml")
    text = draft.read_text().replace('name = "shop"', 'name = "shop"\nencryption = false')
    draft.write_text(text.replace('name = "lan"', 'name = "lan"\nmulticast = false\nmtu = 65536'))
    with ClusterProcesses(tmp_path / "cluster", "--config", str(draft)) as cluster:
        with tocsin.connect(cluster.url_of("witness")) as connection, connection.session() as session:
            producer, consumer = session.producer(session.queue("orders")), session.consumer(session.queue("orders"))
            producer.send("while all live")
            assert body_of(consumer) == "while all live"
            cluster.command("kill", cluster.group()["primary"])
            producer.send("while one is dead")
            assert body_of(consumer) == "while one is dead"
            assert connection.cluster_status()["groups"][0]["linked"]
        cluster.check_logs()


def test_users_are_read_again_when_asked_to(tmp_path: Path) -> None:
    shape = ("--groups", "1", "--members", "1", "--client-managers", "1")
    cluster = ClusterProcesses(tmp_path / "cluster", *shape)
    node = cluster.folder / "nodes" / "cm-1"
    add_user(node / "users", "ada")
    with open(node / "node.toml", "a") as file:
        file.write('users_file = "users"\n')
    with cluster:
        with pytest.raises(tocsin.errors.AuthenticationFailed):
            tocsin.connect(cluster.url, user="bob", password="secret")
        add_user(node / "users", "bob")
        cluster.directory.process("cm-1").signal(signal.SIGHUP)
        until(lambda: "have been reloaded" in (node / "log").read_text(), "it says so")
        with tocsin.connect(cluster.url, user="bob", password="secret") as connection, connection.session() as session:
            session.producer(session.queue("orders")).send("from bob")


def add_user(file: Path, name: str) -> None:
    done = run_command("user", "add", name, "--users", str(file), "--password-stdin", feed=b"secret\n")
    assert done.returncode == 0, done.stderr
