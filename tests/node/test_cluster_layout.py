"""A cluster for one machine has an odd number of voters in each group and ports that are free."""

from __future__ import annotations

import socket

import pytest

from tocsin.model.errors import ConfigError
from tocsin.node import cluster_layout
from tocsin.node.cluster_config import ClusterConfig
from tocsin.node.cluster_layout import HOST, local_cluster


def layout(client_managers: int = 2, groups: int = 2, members: int = 2, port: int = 0) -> ClusterConfig:
    return local_cluster(
        name="local",
        cluster_id="0" * 32,
        secret_fingerprint="0" * 32,
        client_managers=client_managers,
        groups=groups,
        members=members,
        port=port,
        profile="fast",
    )


def test_each_client_manager_is_the_witness_of_one_group() -> None:
    config = layout()
    assert [node.name for node in config.nodes] == ["cm-1", "cm-2", "mm-1a", "mm-1b", "mm-2a", "mm-2b"]
    assert [(group.members, group.witnesses) for group in config.groups] == [
        (("mm-1a", "mm-1b"), ("cm-1",)),
        (("mm-2a", "mm-2b"), ("cm-2",)),
    ]


@pytest.mark.parametrize(("members", "witnesses"), [(1, 0), (2, 1), (3, 0), (4, 1)])
def test_voters_are_odd(members: int, witnesses: int) -> None:
    (group,) = layout(groups=1, members=members).groups
    assert (len(group.members), len(group.witnesses), group.copies) == (members, witnesses, min(2, members))


def test_a_port_that_is_taken_is_avoided() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port: int = taken.getsockname()[1]
        chosen = [node.client for node in layout(port=port).client_managers]
    assert f"{HOST}:{port}" not in chosen and len(set(chosen)) == 2


def test_a_free_port_is_taken_as_asked() -> None:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    assert layout(port=port, client_managers=1).node("cm-1").client == f"{HOST}:{port}"


def test_too_many_groups_are_refused() -> None:
    with pytest.raises(ConfigError, match="at most 64 groups"):
        layout(groups=65)


def test_a_machine_without_multicast_gets_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    assert layout().networks[0].multicast == cluster_layout.carries_multicast(HOST)
    assert not cluster_layout.carries_multicast("203.0.113.1")
    monkeypatch.setattr(cluster_layout, "carries_multicast", lambda interface: False)
    assert not layout().networks[0].multicast
