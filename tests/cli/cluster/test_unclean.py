"""Before a promotion is forced: is there reason for it, and what would be lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.cluster.made import make, play

from tocsin.cli.cluster.directory import ClusterDirectory
from tocsin.cli.cluster.unclean import Gap, gap_of
from tocsin.model.errors import ConfigError, IllegalState
from tocsin.node.status_file import GroupReport

GROUP = "group-1"


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterDirectory:
    return make(tmp_path / "cluster")


def test_the_gap_is_what_anybody_here_knows_to_be_confirmed(cluster: ClusterDirectory) -> None:
    play(cluster, "mm-1a", GroupReport(group=1, role="backup", epoch=64, last_lsn=1_200, committed_lsn=1_150), age=60)
    play(cluster, "mm-1b", GroupReport(group=1, role="backup", epoch=64, last_lsn=1_000, committed_lsn=990))
    gap = gap_of(cluster, "mm-1b", GROUP)
    assert gap == Gap("mm-1b", 1_000, 1_150) and gap.records == 150
    assert gap.sentence() == (
        "mm-1b has records up to 1,000, and records up to 1,150 were confirmed: at least 150 are lost."
    )


def test_where_nobody_knows_of_more_it_says_so() -> None:
    assert Gap("mm-1b", 1_000, 990).records == 0
    assert "as many as anybody here knows of" in Gap("mm-1b", 1_000, 990).sentence()


def test_a_group_that_is_led_needs_no_promotion(cluster: ClusterDirectory) -> None:
    play(cluster, "mm-1a", GroupReport(group=1, role="primary", epoch=64, primary=2, in_sync=(2,)))
    with pytest.raises(IllegalState, match="group-1 is led by mm-1a"):
        gap_of(cluster, "mm-1b", GROUP)


def test_a_wrong_group_or_node(cluster: ClusterDirectory) -> None:
    with pytest.raises(ConfigError, match="no group 'group-9' in this cluster; it has group-1"):
        gap_of(cluster, "mm-1b", "group-9")
    with pytest.raises(ConfigError, match="cm-1 is no member of group-1; its members are mm-1a, mm-1b"):
        gap_of(cluster, "cm-1", GROUP)


def test_with_most_votes_lost_another_command_is_named(cluster: ClusterDirectory) -> None:
    lost = GroupReport(group=1, role="primary", epoch=64, primary=2, in_sync=(2, 3), stalled=True, voteless=(1, 3))
    play(cluster, "mm-1a", lost)
    with pytest.raises(IllegalState, match=r"most of its votes are lost or away: .*rebuild-votes mm-1a group-1"):
        gap_of(cluster, "mm-1b", GROUP)
