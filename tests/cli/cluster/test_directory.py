"""A cluster's directory: which nodes are here, and what is said about those that are not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.cluster.made import make

from tocsin.cli.cluster.directory import ClusterDirectory
from tocsin.model.errors import ConfigError


def test_no_cluster_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no cluster in"):
        ClusterDirectory(tmp_path)


def test_nodes_of_other_machines_are_left_alone(tmp_path: Path) -> None:
    cluster = make(tmp_path / "cluster")
    assert cluster.names == ["cm-1", "mm-1a", "mm-1b"]
    assert cluster.url == f"tocsin://{cluster.config.node('cm-1').client}"
    shutil.rmtree(cluster.path / "nodes" / "mm-1b")
    here = ClusterDirectory(cluster.path)
    assert here.names == ["cm-1", "mm-1a"]
    with pytest.raises(ConfigError, match="mm-1b is not on this machine"):
        here.kill("mm-1b")
    with pytest.raises(ConfigError, match="has no node 'mm-9'"):
        here.kill("mm-9")
    shutil.rmtree(cluster.path / "nodes")
    with pytest.raises(ConfigError, match="no node on this machine"):
        ClusterDirectory(cluster.path)


def test_a_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    cluster = make(tmp_path / "cluster")
    (cluster.path / "secret").chmod(0o644)
    assert cluster.start("cm-1")
    with pytest.raises(ConfigError, match=r"cm-1 ended at once.*chmod 600"):
        cluster.wait_until_started("cm-1")
    assert not cluster.kill("cm-1") and not cluster.ask_to_stop("cm-1")
