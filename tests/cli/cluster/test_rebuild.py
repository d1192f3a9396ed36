"""Before votes are made anew: is there reason for it, and what it risks; then what is on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.cluster.made import make, play

from tocsin.cli.cluster.directory import ClusterDirectory
from tocsin.cli.cluster.rebuild import plan_of, rebuild
from tocsin.cluster.vote import decode_vote
from tocsin.journal.slot_file import read_slots
from tocsin.model.errors import ConfigError, IllegalState
from tocsin.node.group_journal import has_payload
from tocsin.node.status_file import GroupReport
from tocsin.node.votes_rebuilt import RECORD
from tocsin.replication.journal_work import open_log
from tocsin.replication.log import NOOP, Entry
from tocsin.runtime.disk import Disk, SystemRandom

GROUP = "group-1"


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterDirectory:
    return make(tmp_path / "cluster")


def folder_of(cluster: ClusterDirectory, name: str) -> Path:
    return cluster.data_of(name) / GROUP


def store(cluster: ClusterDirectory, name: str, epoch: int, count: int) -> None:
    """Records on the disk of a member that does not run."""
    opened = open_log(Disk(folder_of(cluster, name)), 1 << 20, SystemRandom(), has_payload)
    opened.log.promise(epoch)
    for _ in range(count):
        opened.log.append(Entry(epoch, NOOP, (b"",)))
    while (job := opened.log.next_job()) is not None:
        opened.log.done(opened.work.perform(job))
    opened.work.close()


def test_the_new_vote_names_one_member_and_stands_above_all_others(cluster: ClusterDirectory) -> None:
    store(cluster, "mm-1a", 64, 5)
    before = decode_vote(read_slots(Disk(folder_of(cluster, "mm-1a")), "vote"), "vote")
    plan = plan_of(cluster, "mm-1a", GROUP)
    assert "records up to 5" in plan.sentence() and "LOST" in plan.sentence() and "led twice" in plan.sentence()
    value = rebuild(cluster, plan)
    vote = decode_vote(read_slots(Disk(folder_of(cluster, "mm-1a")), "vote"), "vote")
    assert before.config is not None
    assert vote.config == value and vote.store != before.store
    assert [voter.node for voter in value.voters] == [replica.node for replica in value.in_sync] == [value.primary]
    assert set(value.in_sync) <= set(before.config.in_sync), "it is the log that was there"
    assert value.version > before.config.version + 1_000_000 and vote.accepted.counter > 1_000_000
    assert (value.unclean_epoch, value.unclean_lsn) == (value.epoch, 5)
    record = folder_of(cluster, "mm-1a") / RECORD
    entry = json.loads(record.read_text())
    assert (entry["node"], entry["last_lsn"], entry["before"]["version"]) == ("mm-1a", 5, before.config.version)
    rebuild(cluster, plan)
    assert len(record.read_text().splitlines()) == 2, "each time is on record"


def test_a_vote_that_is_lost_or_damaged_is_no_hindrance(cluster: ClusterDirectory) -> None:
    store(cluster, "mm-1a", 64, 5)
    plan = plan_of(cluster, "mm-1a", GROUP)
    vote = folder_of(cluster, "mm-1a") / "vote"
    vote.write_bytes(b"nonsense")
    assert rebuild(cluster, plan).unclean_lsn == 5
    vote.unlink()
    assert rebuild(cluster, plan).unclean_lsn == 5


def test_the_member_with_more_is_the_one_to_take(cluster: ClusterDirectory) -> None:
    store(cluster, "mm-1a", 64, 5)
    store(cluster, "mm-1b", 64, 6)
    with pytest.raises(IllegalState, match=r"mm-1b has more: records up to 6 of epoch 64.*Choose mm-1b"):
        plan_of(cluster, "mm-1a", GROUP)
    assert plan_of(cluster, "mm-1b", GROUP).found.end.lsn == 6


def test_nothing_of_the_group_may_run(cluster: ClusterDirectory) -> None:
    play(cluster, "cm-1", GroupReport(group=1, role="witness"))
    with pytest.raises(IllegalState, match=r"Nodes of group-1 run: cm-1\. Votes are made anew only while no node"):
        plan_of(cluster, "mm-1a", GROUP)


def test_a_wrong_group_or_node(cluster: ClusterDirectory) -> None:
    with pytest.raises(ConfigError, match="no group 'group-9'"):
        plan_of(cluster, "mm-1a", "group-9")
    with pytest.raises(ConfigError, match="cm-1 is no member of group-1"):
        plan_of(cluster, "cm-1", GROUP)
