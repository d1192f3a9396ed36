"""The birth of a cluster: everything once, and the register's first value in every voter's file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.cluster_drafts import DRAFT, write

from tocsin.cluster.group_config import Replica
from tocsin.cluster.vote import Vote, decode_vote
from tocsin.cluster.voter import FIRST_BALLOT
from tocsin.journal.meta import read_meta
from tocsin.journal.slot_file import read_slots
from tocsin.model.errors import ConfigError
from tocsin.node.cluster_config import ClusterConfig
from tocsin.node.cluster_file import read_cluster_file
from tocsin.node.cluster_identity import check_identity
from tocsin.node.cluster_init import ClusterExists, create_cluster
from tocsin.node.cluster_layout import local_cluster
from tocsin.node.node_config import load_node_config
from tocsin.replication.journal_work import store_of
from tocsin.runtime.disk import Disk


def make(cluster_id: str, fingerprint: str) -> ClusterConfig:
    return local_cluster(
        name="local",
        cluster_id=cluster_id,
        secret_fingerprint=fingerprint,
        client_managers=2,
        groups=2,
        members=2,
        port=0,
        profile="default",
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def vote_of(folder: Path, node: str, group: int) -> Vote:
    return decode_vote(read_slots(Disk(folder / "nodes" / node / "data" / f"group-{group}"), "vote"), "vote")


def test_every_voter_has_the_same_first_value_and_its_own_store(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    config = create_cluster(folder, make)
    for group in config.groups:
        votes = {name: vote_of(folder, name, group.number) for name in group.voters}
        (first,) = {vote.config for vote in votes.values()}
        assert first is not None and (first.version, first.epoch, first.primary, first.copies) == (1, 0, 0, 2)
        assert first.voters == tuple(sorted(Replica(config.node(n).number, vote.store) for n, vote in votes.items()))
        assert all(vote.accepted == FIRST_BALLOT for vote in votes.values())
        for name in group.members:
            _, identity = read_meta(Disk(folder / "nodes" / name / "data" / f"group-{group.number}"))
            assert identity is not None
            assert Replica(config.node(name).number, store_of(identity)) in first.in_sync


def test_the_nodes_files_lead_to_all_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    config = create_cluster(folder, make)
    for node in config.nodes:
        loaded = load_node_config(folder / "nodes" / node.name / "node.toml")
        assert loaded.cluster == config and loaded.node == node
        assert not check_identity(Disk(loaded.server.data_dir), config, node)
        assert loaded.secret.hex() not in repr(loaded)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cluster"]


def test_a_second_birth_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    create_cluster(folder, make)
    before = contents(folder)
    with pytest.raises(ClusterExists, match="holds a cluster already; nothing was changed"):
        create_cluster(folder, make)
    assert contents(folder) == before


def test_other_peoples_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    write(tmp_path / "letters", "Dear Ada", "letter")
    with pytest.raises(ClusterExists, match="something else"):
        create_cluster(tmp_path / "letters", make)
    assert contents(tmp_path) == {"letters/letter": b"Dear Ada"}


def test_a_draft_that_cannot_work_leaves_nothing_behind(tmp_path: Path) -> None:
    draft = write(tmp_path, DRAFT.replace('witnesses = ["cm-1"]', ""))
    with pytest.raises(ConfigError, match="even number"):
        create_cluster(
            tmp_path / "cluster",
            lambda cluster_id, mark: read_cluster_file(draft, given={"id": cluster_id, "secret_fingerprint": mark}),
        )
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.toml"]


def test_two_clusters_on_one_machine_share_no_address(tmp_path: Path) -> None:
    first, second = create_cluster(tmp_path / "a", make), create_cluster(tmp_path / "b", make)
    assert first.cluster_id != second.cluster_id and first.secret_fingerprint != second.secret_fingerprint
    places = [
        (channel.address_in, channel.port)
        for config in (first, second)
        for g in config.groups
        for channel in g.channels
    ]
    assert len(set(places)) == len(places)
