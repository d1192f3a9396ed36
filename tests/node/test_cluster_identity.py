"""A node never starts on the data of another node or another cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.node.cluster_drafts import GOOD, write

from tocsin.model.errors import ConfigError
from tocsin.node.cluster_config import ClusterConfig
from tocsin.node.cluster_file import read_cluster_file
from tocsin.node.cluster_identity import check_identity
from tocsin.testing.disk import SimulatedDisk


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterConfig:
    return read_cluster_file(write(tmp_path, GOOD))


def test_an_empty_directory_becomes_the_nodes_own(cluster: ClusterConfig) -> None:
    files, node = SimulatedDisk(), cluster.node("mm-1")
    files.create("lock", 0).close()
    assert check_identity(files, cluster, node)
    assert not check_identity(files, cluster, node)


def test_another_nodes_directory_is_refused(cluster: ClusterConfig) -> None:
    files = SimulatedDisk()
    check_identity(files, cluster, cluster.node("mm-1"))
    with pytest.raises(ConfigError, match="belongs to the node mm-1 \\(number 2\\), not to mm-2"):
        check_identity(files, cluster, cluster.node("mm-2"))


def test_another_clusters_directory_is_refused(cluster: ClusterConfig) -> None:
    files, node = SimulatedDisk(), cluster.node("mm-1")
    check_identity(files, cluster, node)
    with pytest.raises(ConfigError, match="belongs to another cluster, test"):
        check_identity(files, replace(cluster, cluster_id="1" * 32), node)


def test_the_directory_of_a_single_server_is_refused(cluster: ClusterConfig) -> None:
    files = SimulatedDisk()
    files.create("boot", 0).close()
    with pytest.raises(ConfigError, match="no node of a cluster"):
        check_identity(files, cluster, cluster.node("mm-1"))


def test_a_damaged_identity_is_not_guessed(cluster: ClusterConfig) -> None:
    files = SimulatedDisk()
    file = files.create("identity", 0)
    file.write(0, [b"[]"])
    file.close()
    with pytest.raises(ConfigError, match=r"damaged\. Move the directory away .*: the others fill it"):
        check_identity(files, cluster, cluster.node("mm-1"))


def test_what_data_stands_on_cannot_be_changed(cluster: ClusterConfig) -> None:
    files, node = SimulatedDisk(), cluster.node("mm-1")
    check_identity(files, cluster, node)
    (group,) = cluster.groups
    moved = replace(cluster, nodes=(*cluster.nodes[:2], replace(cluster.nodes[2], bus_port=9_000)))
    assert not check_identity(files, moved, node)
    for other in (
        replace(group, slots=((0, 511), (512, 1023)), number=2),
        replace(group, members=("mm-2", "mm-1")),
        replace(group, members=("mm-1", "mm-2"), witnesses=("cm-2",)),
    ):
        more = (replace(cluster.nodes[0], name="cm-2", number=9, client="10.0.0.1:7277", bus_port=8_000),)
        with pytest.raises(ConfigError, match="can't be changed"):
            check_identity(files, replace(cluster, nodes=cluster.nodes + more, groups=(other,)), node)
