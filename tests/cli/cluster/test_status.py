"""The state of a cluster is what its nodes say of themselves, if they still live and speak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.cluster.made import make, play

from tocsin.cli.cluster.directory import ClusterDirectory
from tocsin.cli.cluster.status import STALE_SECONDS, look
from tocsin.node.status_file import GroupReport

FIRST, SECOND = 2, 3


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterDirectory:
    return make(tmp_path / "cluster")


def report(
    role: str, *, epoch: int = 64, primary: int = FIRST, in_sync: tuple[int, ...] = (FIRST, SECOND)
) -> GroupReport:
    return GroupReport(group=1, role=role, epoch=epoch, primary=primary, in_sync=in_sync, committed_lsn=7)


def play_well(cluster: ClusterDirectory) -> None:
    play(cluster, "cm-1", report("witness"))
    play(cluster, "mm-1a", report("primary"))
    play(cluster, "mm-1b", report("backup"))


def test_all_is_well(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    seen = look(cluster)
    (group,) = seen.groups
    assert seen.is_well and seen.is_anything_running
    assert (group.primary, group.in_sync, group.out_of_sync, group.state) == ("mm-1a", ("mm-1a", "mm-1b"), (), "well")
    assert [node.state for node in seen.nodes] == ["running"] * 3
    assert seen.as_json()["groups"][0]["committed_lsn"] == 7


def test_nothing_runs(cluster: ClusterDirectory) -> None:
    seen = look(cluster)
    assert not seen.is_well and not seen.is_anything_running
    assert seen.groups[0].state == "no primary"
    assert {node.state for node in seen.nodes} == {"stopped"}


def test_the_highest_epoch_counts(cluster: ClusterDirectory) -> None:
    """A primary that was held still wakes up and still believes in itself."""
    play_well(cluster)
    play(cluster, "mm-1b", report("primary", epoch=129, primary=SECOND, in_sync=(SECOND,)))
    (group,) = look(cluster).groups
    assert (group.primary, group.epoch, group.out_of_sync, group.state) == ("mm-1b", 129, ("mm-1a",), "degraded")


def test_a_name_in_the_register_is_no_primary(cluster: ClusterDirectory) -> None:
    play(cluster, "mm-1b", report("backup"))
    (group,) = look(cluster).groups
    assert group.primary is None and group.state == "no primary"


def test_who_says_nothing_any_more_is_not_believed(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    play(cluster, "mm-1a", report("primary"), age=2 * STALE_SECONDS)
    play(cluster, "cm-1", report("witness", primary=0))
    seen = look(cluster)
    assert {node.name: node.state for node in seen.nodes}["mm-1a"] == "silent"
    assert seen.groups[0].primary is None


@pytest.mark.parametrize(
    ("killed", "primary", "state"), [("mm-1a", None, "no primary"), ("mm-1b", "mm-1a", "degraded")]
)
def test_who_was_killed_neither_leads_nor_is_in_sync_though_nobody_has_noticed_yet(
    cluster: ClusterDirectory, killed: str, primary: str | None, state: str
) -> None:
    play_well(cluster)
    (cluster.path / "nodes" / killed / "pid").unlink()
    (group,) = look(cluster).groups
    assert (group.primary, group.out_of_sync, group.state) == (primary, (killed,), state)


def test_a_node_that_drains_is_shown(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    play(cluster, "mm-1b", report("backup"), draining=True)
    seen = look(cluster)
    assert not seen.is_well
    assert {node.name: node.state for node in seen.nodes}["mm-1b"] == "draining"


def test_what_an_earlier_process_left_says_nothing(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    (cluster.path / "nodes" / "mm-1a" / "pid").unlink()
    seen = look(cluster)
    assert {node.name: node.state for node in seen.nodes}["mm-1a"] == "stopped"
    # The client manager heard it a moment ago; but here is known better.
    assert seen.groups[0].primary is None and not seen.is_well


def told(**trouble: object) -> GroupReport:
    return replace(report("primary"), **trouble)  # type: ignore[arg-type]


def test_well_is_only_what_was_heard_of_lately(cluster: ClusterDirectory) -> None:
    """A backup with an empty disk is in the register still; the primary knows that it does not hear of it."""
    play_well(cluster)
    play(cluster, "mm-1a", told(unheard=(SECOND,), voteless=(SECOND,)))
    seen = look(cluster)
    (group,) = seen.groups
    assert not seen.is_well
    assert (group.state, group.in_sync, group.out_of_sync) == ("degraded", ("mm-1a",), ("mm-1b",))
    assert group.troubles == ("not in sync: mm-1b", "no vote that counts is heard from mm-1b")


def test_a_lost_vote_is_told_though_all_members_are_in_sync(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    play(cluster, "mm-1a", told(voteless=(1,)))
    (group,) = look(cluster).groups
    assert (group.state, group.voteless) == ("degraded", ("cm-1",))


def test_a_primary_that_confirms_nothing_is_not_well(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    play(cluster, "mm-1a", told(stalled=True))
    seen = look(cluster)
    assert not seen.is_well and seen.groups[0].state == "stalled"
    assert seen.as_json()["groups"][0]["troubles"] == ("mm-1a leads, but delivers and confirms nothing",)


def test_damage_that_nobody_could_mend_is_not_well(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    play(cluster, "mm-1b", replace(report("backup"), damaged=1))
    seen = look(cluster)
    assert not seen.is_well and seen.groups[0].state == "degraded"


def test_damage_that_was_mended_is_well(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    play(cluster, "mm-1b", replace(report("backup"), mended=1))
    assert look(cluster).is_well


def test_what_to_do_when_most_votes_are_missing(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    play(cluster, "mm-1a", told(stalled=True, voteless=(1, SECOND)))
    (group,) = look(cluster).groups
    assert group.troubles[-1] == (
        "more than half of the votes are missing. Start those nodes with the data they had; if it is lost for good,"
        " stop the group and use `tocsin cluster rebuild-votes mm-1a group-1`"
    )


def test_who_may_lead_is_told_when_nobody_does(cluster: ClusterDirectory) -> None:
    """mm-1b went on alone, and its disk is lost; of the votes nobody knows anything, least of all what mm-1b said."""
    play(cluster, "cm-1", replace(report("witness", primary=0, in_sync=(SECOND,)), voteless=(FIRST,)))
    play(cluster, "mm-1a", report("backup", epoch=0, primary=0, in_sync=()))
    play(cluster, "mm-1b", report("backup", epoch=0, primary=0, in_sync=()))
    (group,) = look(cluster).groups
    assert (group.state, group.voteless) == ("no primary", ())
    assert group.troubles == (
        "nobody leads. It takes a member that was in sync (mm-1b), with the data it had, and more than half of the"
        " voters. If every such member's data is lost for good, `tocsin cluster unclean-promote` goes on with another"
        " one",
    )


def test_what_nodes_want_people_to_know(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    play(cluster, "mm-1b", replace(report("backup"), note="The files are an older copy."))
    seen = look(cluster)
    assert seen.is_well and seen.groups[0].notes == ("mm-1b: The files are an older copy.",)


def test_who_was_started_anew_leads_no_more_though_somebody_heard_it_a_moment_ago(cluster: ClusterDirectory) -> None:
    play_well(cluster)
    play(cluster, "mm-1a", report("backup", epoch=0, primary=0, in_sync=()))
    assert look(cluster).groups[0].primary is None
