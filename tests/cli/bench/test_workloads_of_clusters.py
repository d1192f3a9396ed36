"""The workloads of clusters, with few messages: what they show, and that no process or file is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.bench.test_workloads import bench

from tocsin.cli.bench.settings import Profile, Settings, Workload
from tocsin.cli.bench.workloads import replication

pytestmark = pytest.mark.timeout(120)


def test_e2e_shows_what_each_node_spent(tmp_path: Path) -> None:
    shown = bench(tmp_path, "e2e", "--count", "2000", "--cluster", "1x2", "--profile", "fast")
    assert (shown["cluster"], shown["count"]) == ("1x2", 2000)
    nodes = [shown[f"{name}_cpu_s"] for name in ("cm-1", "mm-1a", "mm-1b")]
    assert sum(nodes) == pytest.approx(shown["server_cpu_s"], abs=0.01)
    assert shown["server_rss_mib"] > 3 * 10


@pytest.mark.long
def test_failover_loses_nothing(tmp_path: Path) -> None:
    shown = bench(tmp_path, "failover", "--runs", "2", "--profile", "fast", "--rate", "500")
    assert (shown["runs"], shown["profile"]) == (2, "fast")
    assert (shown["lost"], shown["duplicates"], shown["out_of_order"]) == (0, 0, 0)
    assert 0.1 < shown["p50_s"] <= shown["max_s"] < 10, "nobody is promoted before a lease is over"


@pytest.mark.long
def test_a_published_byte_costs_the_same_whatever_the_number_of_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each crosses the network once for all of them. Here for the smallest and the largest group, to save time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(replication, "MEMBERS", (1, 4))
    settings = Settings(workload=Workload.REPLICATION, count=5_000, size=1_000, profile=Profile.FAST)
    shown = replication.run(settings).as_object()
    ratios = shown["bytes_per_published_byte"]
    assert list(ratios) == ["1", "4"]
    assert all(1.0 < ratio < 1.2 for ratio in ratios.values()), ratios
    assert shown["spread_percent"] < 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_everything_arrives_over_a_bus_that_loses_a_fifth(tmp_path: Path) -> None:
    shown = bench(tmp_path, "loss", "--count", "100000")
    assert shown["loss_percent"] == 20
    assert shown["packets_sent_again"] > 0, "else nothing was lost, and the run proves nothing"
    assert shown["changes_of_configuration"] == 0, "no member left the in-sync set"
    assert shown["share_of_loss_free_percent"] >= 5


@pytest.mark.long
def test_publishing_goes_on_while_a_backup_joins(tmp_path: Path) -> None:
    shown = bench(tmp_path, "join", "--count", "50000", "--profile", "fast")
    assert (shown["stored"], shown["count"]) == (50_000, 50_000)
    assert shown["published_meanwhile"] > 100
    assert 0 < shown["longest_pause_s"] < 1


def test_nothing_changes_without_a_fault(tmp_path: Path) -> None:
    shown = bench(tmp_path, "steady", "--seconds", "2", "--profile", "fast")
    assert shown["changes_of_epoch"] == shown["changes_of_configuration"] == 0
    assert shown["messages_per_second"] > 1_000
