"""Disks that are lost, or come back as they were on another day, in real processes (R13, R16): nothing that was
confirmed is lost without a word, and the status never says well when it is not.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.clusters import READY_SECONDS, ClusterProcesses
from tests.system.processes import PATIENCE, run_command, until

import tocsin
from tocsin.cluster.vote import decode_vote
from tocsin.journal.slot_file import read_slots
from tocsin.node.votes_rebuilt import RECORD
from tocsin.runtime.disk import Disk

GROUP = "group-1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as made:
        made.wait_for(lambda seen: seen["well"], "all is well")
        yield made
        made.check_logs()


def publish(cluster: ClusterProcesses, *bodies: str) -> list[str]:
    with tocsin.connect(cluster.url) as connection, connection.session() as session:
        session.producer(session.queue("orders")).send_many(bodies)
    return list(bodies)


def browsed(cluster: ClusterProcesses) -> list[str]:
    with tocsin.connect(cluster.url) as connection, connection.session() as session:
        return [str(message.body) for message in session.browser(session.queue("orders"))]


def data_of(cluster: ClusterProcesses, name: str) -> Path:
    return cluster.folder / "nodes" / name / "data"


def witness_of(cluster: ClusterProcesses) -> str:
    return cluster.directory.config.groups[0].witnesses[0]


def seen_start(cluster: ClusterProcesses, by: str, of: str) -> int:
    """The last start of a node, of its log and of its vote, that the vote of another one remembers."""
    vote = decode_vote(read_slots(Disk(data_of(cluster, by) / GROUP), "vote"), "vote")
    number = cluster.directory.config.node(of).number
    return min((seen.start for table in vote.known for seen in table if seen.replica.node == number), default=0)


def start_and_be_seen(cluster: ClusterProcesses, name: str, by: str) -> None:
    before = seen_start(cluster, by, name)
    cluster.directory.start(name)
    until(lambda: seen_start(cluster, by, name) > before, f"{by} has noted that {name} is there", READY_SECONDS)
    cluster.wait_for(lambda seen: seen["well"], "all is well again")


def wipe(cluster: ClusterProcesses, name: str) -> None:
    shutil.rmtree(data_of(cluster, name))
    data_of(cluster, name).mkdir(mode=0o700)


def refused(cluster: ClusterProcesses, *command: str) -> str:
    done = run_command("cluster", *command, "--confirm", GROUP, "-C", str(cluster.folder))
    assert done.returncode == 1, done.stderr.decode()
    return done.stderr.decode()


def test_an_older_copy_of_a_member_joins_as_a_new_one(cluster: ClusterProcesses, tmp_path: Path) -> None:
    """All are stopped; the preferred member, restored from a copy, is up first, with the witness."""
    sent = publish(cluster, *(f"before {number}" for number in range(100)))
    cluster.directory.kill("mm-1a")
    shutil.copytree(data_of(cluster, "mm-1a"), tmp_path / "copy")
    start_and_be_seen(cluster, "mm-1a", witness_of(cluster))
    sent += publish(cluster, *(f"after {number}" for number in range(10)))
    cluster.kill_all()

    shutil.rmtree(data_of(cluster, "mm-1a"))
    shutil.copytree(tmp_path / "copy", data_of(cluster, "mm-1a"))
    for name in ("mm-1a", witness_of(cluster)):
        cluster.directory.start(name)
    seen = cluster.wait_for(lambda seen: seen["groups"][0]["notes"], "the copy is noticed")
    assert seen["groups"][0]["primary"] is None and not seen["well"]
    # Its vote counts for nothing; of its files one voter alone proves nothing: it may have missed a forced promotion.
    assert "mm-1a: The vote is an older copy" in seen["groups"][0]["notes"][0]
    for name in cluster.directory.names:
        cluster.directory.start(name)
    cluster.wait_for(lambda seen: seen["well"], "the other one leads, and fills it")
    assert browsed(cluster) == sent
    assert "The files are an older copy of this member's" in (cluster.folder / "nodes" / "mm-1a" / "log").read_text()

    cluster.directory.kill("mm-1b")
    cluster.wait_for(lambda seen: seen["groups"][0]["primary"] == "mm-1a", "it counts again, as the new one")
    assert browsed(cluster) == sent


def test_an_older_vote_of_a_witness_is_replaced(cluster: ClusterProcesses, tmp_path: Path) -> None:
    witness = witness_of(cluster)
    vote = data_of(cluster, witness) / GROUP / "vote"
    cluster.directory.kill(witness)
    shutil.copy(vote, tmp_path / "vote")
    start_and_be_seen(cluster, witness, "mm-1b")
    cluster.directory.kill(witness)
    shutil.copy(tmp_path / "vote", vote)
    cluster.directory.start(witness)
    seen = cluster.wait_for(lambda seen: seen["well"] and seen["groups"][0]["notes"], "a new voter is in its place")
    assert f"{witness}: The vote is an older copy" in seen["groups"][0]["notes"][0]


def test_with_most_votes_lost_nothing_is_well_until_they_are_made_anew(cluster: ClusterProcesses) -> None:
    """The disks of the witness and of the backup are lost. The primary has everything, and no majority."""
    sent = publish(cluster, *(f"kept {number}" for number in range(20)))
    primary, witness = cluster.group()["primary"], witness_of(cluster)
    (backup,) = {"mm-1a", "mm-1b"} - {primary}
    for name in (witness, backup):
        cluster.directory.kill(name)
    for name in (witness, backup):
        wipe(cluster, name)
        cluster.directory.start(name)
    assert not cluster.status()["well"]
    seen = cluster.wait_for(
        lambda seen: (
            backup in seen["groups"][0]["out_of_sync"] and set(seen["groups"][0]["voteless"]) == {witness, backup}
        ),
        "the status says what is lost",
    )
    assert not seen["well"] and seen["groups"][0]["state"] == "stalled"
    assert "rebuild-votes" in refused(cluster, "unclean-promote", primary, GROUP)
    assert "only while no node of the group runs" in refused(cluster, "rebuild-votes", primary, GROUP)

    cluster.command("down")
    wrong = run_command("cluster", "rebuild-votes", primary, GROUP, "--confirm", "yes", "-C", str(cluster.folder))
    assert wrong.returncode == 2 and b"LOST" in wrong.stderr
    told = cluster.command("rebuild-votes", primary, GROUP, "--confirm", GROUP)
    cluster.command("up", "--detach")
    seen = cluster.wait_for(lambda seen: seen["well"], "all votes are there again")
    assert browsed(cluster) == sent
    assert seen["groups"][0]["unclean_epoch"] == told["epoch"], "it stays on record"
    entry = json.loads((data_of(cluster, primary) / GROUP / RECORD).read_text())
    assert (entry["node"], entry["epoch"]) == (primary, told["epoch"])

    cluster.directory.kill(primary)
    cluster.wait_for(lambda seen: seen["groups"][0]["primary"] == backup, "the group survives the loss of one again")
    assert browsed(cluster) == sent


def test_unclean_promotion_when_the_disks_of_all_that_were_in_sync_are_lost(cluster: ClusterProcesses) -> None:
    """They run again, empty: nobody has what was confirmed last, and nobody leads before an operator says so."""
    both = publish(cluster, *(f"both {number}" for number in range(20)))
    old = cluster.group()["primary"]
    (left,) = {"mm-1a", "mm-1b"} - {old}
    cluster.directory.kill(left)
    publish(cluster, *(f"one {number}" for number in range(20)))
    cluster.directory.kill(old)
    wipe(cluster, old)
    for name in (old, left):
        cluster.directory.start(name)
    cluster.wait_for(lambda seen: seen["groups"][0]["primary"] is None, "nobody leads")
    with pytest.raises(AssertionError):
        cluster.wait_for(lambda seen: seen["groups"][0]["primary"], "nor does anybody by itself", seconds=5.0)
    told = cluster.command("unclean-promote", left, GROUP, "--confirm", GROUP)
    assert told["epoch"] > 0
    cluster.wait_for(lambda seen: seen["well"], "the empty one is filled", PATIENCE)
    assert browsed(cluster) == both
