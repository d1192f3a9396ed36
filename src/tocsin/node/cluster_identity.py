"""Whose data directory it is: a small file in it names the cluster and the node, so that nobody starts on another's."""

from __future__ import annotations

import json

from tocsin.journal.atomic_file import replace_file
from tocsin.model.errors import ConfigError, StorageFull
from tocsin.node.cluster_config import ClusterConfig, Node
from tocsin.runtime.ports import Files

IDENTITY = "identity"
_BYTES_MAX = 4096
# A lock is taken before anybody looks.
_NO_DATA = {"lock", "status.json"}


def check_identity(files: Files, cluster: ClusterConfig, node: Node) -> bool:
    """True when the directory was empty, and is this node's from now on: its disk is new to the groups."""
    mine = _identity(cluster, node)
    found = _read(files)
    if found is None:
        if set(files.list("")) - _NO_DATA:
            raise ConfigError(
                f"The data directory of {node.name} holds the data of something that is no node of a cluster; choose an"
                " empty directory."
            )
        write_identity(files, cluster, node)
        return True
    if found.get("cluster_id") != mine["cluster_id"]:
        raise ConfigError(
            f"The data directory belongs to another cluster, {found.get('cluster')} ({found.get('cluster_id')}); this"
            f" one is {cluster.name} ({cluster.cluster_id})."
        )
    if found.get("number") != node.number:
        raise ConfigError(
            f"The data directory belongs to the node {found.get('node')} (number {found.get('number')}), not to"
            f" {node.name} (number {node.number}); its votes must not be cast by another."
        )
    if found.get("foundation") != mine["foundation"]:
        raise ConfigError(
            "The cluster file names other groups, members, witnesses or slots than the one that this data was made"
            " with. Those can't be changed; take the file of then."
        )
    return False


def write_identity(files: Files, cluster: ClusterConfig, node: Node) -> None:
    if not replace_file(files, IDENTITY, [json.dumps(_identity(cluster, node)).encode()]):
        raise StorageFull("The disk is full: the node can't even note whose data directory this is. Free some space.")


def _identity(cluster: ClusterConfig, node: Node) -> dict[str, object]:
    return {
        "cluster": cluster.name,
        "cluster_id": cluster.cluster_id,
        "node": node.name,
        "number": node.number,
        "foundation": cluster.foundation(),
    }


def _read(files: Files) -> dict[str, object] | None:
    try:
        file = files.open(IDENTITY)
    except FileNotFoundError:
        return None
    try:
        data = file.read(0, _BYTES_MAX)
    finally:
        file.close()
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(
            "The file `identity` in the data directory is damaged. Move the directory away and start the node with an"
            " empty one: the others fill it."
        )
    return found
