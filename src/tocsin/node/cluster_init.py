"""The birth of a cluster: its id, its secret, a folder for each node, and the first value of each group's register.

    DIRECTORY/cluster.toml                  identical on all nodes
    DIRECTORY/secret                        the same on all nodes, for the owner's eyes alone
    DIRECTORY/nodes/NAME/node.toml          the node's own few lines
    DIRECTORY/nodes/NAME/data/identity      whose data this is
    DIRECTORY/nodes/NAME/data/group-N/meta  of a member: the journal's identity, which names the disk
    DIRECTORY/nodes/NAME/data/group-N/vote  of a voter: its vote, with the first configuration accepted

The first configuration names every member's disk and every voter's file, so both are made here, with it, once. A node
never makes them by itself: on an empty directory it is a new replica that the others have to take in. So nobody
promotes itself by waiting, and a lost disk is never taken for a new cluster. The directory appears whole or not at
all. For several machines each gets cluster.toml, secret and the folder of its own nodes.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from tocsin.cluster.group_config import GroupConfig, Replica, first_config
from tocsin.cluster.vote import Vote, encode_vote
from tocsin.cluster.voter import FIRST_BALLOT
from tocsin.journal.meta import create_meta
from tocsin.journal.slot_file import save_slots
from tocsin.model.errors import ConfigError, StorageFull
from tocsin.model.limits import CLUSTER_ID_CHARACTERS
from tocsin.node.cluster_config import ClusterConfig, Group
from tocsin.node.cluster_file import write_cluster
from tocsin.node.cluster_identity import write_identity
from tocsin.node.cluster_secret import fingerprint, new_secret, write_secret
from tocsin.replication.journal_work import new_store, store_of
from tocsin.runtime.disk import Disk, SystemRandom, make_directory

CLUSTER_FILE = "cluster.toml"
SECRET_FILE = "secret"
NODES = "nodes"
NODE_FILE = "node.toml"
DATA = "data"
VOTE = "vote"
_NODE_TEXT = """\
cluster = "../../{cluster}"
secret = "../../{secret}"
node = "{node}"
data_dir = "{data}"
"""

MakeConfig = Callable[[str, str], ClusterConfig]
"""From a new id and the fingerprint of a new secret."""


class ClusterExists(ConfigError):
    """The directory holds a cluster, or something else; nothing was changed."""


def group_folder(group: int) -> str:
    return f"group-{group}"


def create_cluster(directory: Path, make: MakeConfig) -> ClusterConfig:
    """Makes a new cluster in a directory that is not there yet, or empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        what = "a cluster already" if (directory / CLUSTER_FILE).exists() else "something else"
        raise ClusterExists(f"{directory} holds {what}; nothing was changed. Choose another directory.")
    secret = new_secret()
    config = make(secrets.token_hex(CLUSTER_ID_CHARACTERS // 2), fingerprint(secret))
    make_directory(directory.parent)
    growing = directory.parent / f".{directory.name}.{secrets.token_hex(4)}"
    try:
        growing.mkdir(mode=0o700)
        _fill(growing, config, secret)
        _sync(growing)
        try:
            os.rename(growing, directory)
        except OSError as reason:
            raise ClusterExists(f"{directory} came into being meanwhile; nothing was changed.") from reason
        _sync(directory.parent)
    finally:
        shutil.rmtree(growing, ignore_errors=True)
    return config


def _fill(root: Path, config: ClusterConfig, secret: bytes) -> None:
    write_secret(root / SECRET_FILE, secret)
    _write(root / CLUSTER_FILE, write_cluster(config))
    (root / NODES).mkdir()
    for node in config.nodes:
        folder = root / NODES / node.name
        folder.mkdir()
        _write(
            folder / NODE_FILE,
            _NODE_TEXT.format(cluster=CLUSTER_FILE, secret=SECRET_FILE, node=node.name, data=DATA),
        )
        (folder / DATA).mkdir(mode=0o700)
        write_identity(Disk(folder / DATA), config, node)
        _sync(folder)
    for group in config.groups:
        _write_first_value(root, config, group)
    _sync(root / NODES)


def _write_first_value(root: Path, config: ClusterConfig, group: Group) -> None:
    random = SystemRandom()
    disks: dict[str, Disk] = {}
    for name in group.voters:
        data = Disk(root / NODES / name / DATA)
        data.make_folder(group_folder(group.number))
        data.sync_directory("")
        disks[name] = Disk(root / NODES / name / DATA / group_folder(group.number))
    members = [Replica(config.node(name).number, store_of(create_meta(disks[name], random))) for name in group.members]
    voters = {name: Replica(config.node(name).number, new_store(random)) for name in group.voters}
    first: GroupConfig = first_config(members, voters.values(), group.copies)
    for name, voter in voters.items():
        vote = Vote(voter.store, accepted=FIRST_BALLOT, config=first)
        if not save_slots(disks[name], VOTE, encode_vote(vote)):
            raise StorageFull("No room left on the disk for the first votes; free some space.")


def _write(path: Path, text: str) -> None:
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
