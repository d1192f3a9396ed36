"""R12 in real processes: a destination may insist on two copies."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.system.clusters import ClusterProcesses
from tests.system.processes import PATIENCE

import tocsin
from tocsin.errors import StorageDegraded


def knows_that_it_is_alone(cluster: ClusterProcesses, node: str) -> bool:
    """By the member's own word: the command leaves out who was killed before the group has noticed."""
    [group] = json.loads((cluster.folder / "nodes" / node / "data" / "status.json").read_text())["groups"]
    return len(group["in_sync"]) == 1


def test_a_destination_that_wants_two_copies_waits_for_the_second_member(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster:
        cluster.wait_for(lambda seen: seen["well"], "all is well")
        with tocsin.connect(cluster.url) as connection, connection.session() as session:
            connection.create_destination("careful", min_copies=2)
            careful, other = session.producer(session.queue("careful")), session.producer(session.queue("other"))
            careful.send("first")
            # Whichever of the two leads: the other one is left.
            cluster.command("kill", "mm-1b")
            cluster.wait_for(lambda seen: seen["groups"][0]["primary"] == "mm-1a", "it leads")
            cluster.wait_for(lambda _: knows_that_it_is_alone(cluster, "mm-1a"), "it is alone, and knows it")
            with pytest.raises(StorageDegraded, match="send again later"):
                careful.send("second")
            other.send("one copy will do")
            message = session.consumer(session.queue("careful")).receive(timeout=10)
            assert message is not None and message.body == "first"
            cluster.command("start", "mm-1b")
            cluster.wait_for(lambda seen: seen["well"], "the other one is in sync again")
            careful.send("second")
        cluster.command("down")
        cluster.check_logs()


def test_what_was_taken_in_just_before_the_other_member_left_is_confirmed_when_it_is_back(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster:
        cluster.wait_for(lambda seen: seen["well"], "all is well")
        with tocsin.connect(cluster.url) as connection, connection.session() as session:
            connection.create_destination("careful", min_copies=2)
            careful, other = session.producer(session.queue("careful")), session.producer(session.queue("other"))
            careful.send("first")
            other.send("first")
            primary = cluster.group()["primary"]
            [backup] = {"mm-1a", "mm-1b"} - {primary}
            cluster.directory.process(backup).signal(signal.SIGSTOP)
            try:
                # The primary does not know yet that the other one stands still.
                waiting = careful.send_nowait("second")
                other.send("one copy will do")
                cluster.wait_for(lambda _: knows_that_it_is_alone(cluster, primary), "it is alone, and knows it")
                assert not waiting.done
            finally:
                cluster.directory.process(backup).signal(signal.SIGCONT)
            waiting.wait(PATIENCE)
            cluster.wait_for(lambda seen: seen["well"], "the other one is in sync again")
        cluster.command("down")
        cluster.check_logs()
