"""One node's own part of the configuration: a few lines beside the cluster file that it shares with all others.

    cluster = "cluster.toml"       # identical on all nodes
    node = "mm-1"                  # which of them this is
    secret = "secret"              # made by `tocsin cluster init`, the same on all nodes
    data_dir = "data"

A client manager may have the settings of a server, too: host, port, users_file, tls_cert and so on. Paths are
relative to the folder of the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

from tocsin.model.errors import ConfigError
from tocsin.node.cluster_config import ClusterConfig, Node
from tocsin.node.cluster_file import read_cluster_file
from tocsin.node.cluster_secret import check_secret, read_secret
from tocsin.node.config import SETTING_CHECKS, ServerConfig
from tocsin.node.setting_checks import name, path, whole_number
from tocsin.node.toml_file import read_table, read_toml

_OWN = {"cluster": path, "node": name, "secret": path}
# For tests and benchmarks: datagrams to lose, of those that come.
_FAULTS = {"drop_percent": whole_number(0, 50)}
# The names of a cluster are in its file, and a group's confirmations need their syncs.
_NOT_OURS = {"node", "site", "sync", "sync_interval_ms"}


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    file: Path
    cluster: ClusterConfig
    node: Node
    server: ServerConfig
    secret: bytes = field(repr=False)
    drop_percent: int = 0


def load_node_config(file: Path) -> NodeConfig:
    """Reads and checks the node's file, the cluster file and the secret."""
    checks = {setting: check for setting, check in SETTING_CHECKS.items() if setting not in _NOT_OURS} | _OWN | _FAULTS
    settings = read_table(read_toml(file), checks, "the node's settings", file, required=tuple(_OWN))
    for setting, value in settings.items():
        if isinstance(value, Path):
            settings[setting] = file.parent / value
    cluster = read_cluster_file(settings.pop("cluster"))
    node = cluster.node(settings.pop("node"))
    secret_file = settings.pop("secret")
    secret = read_secret(secret_file)
    check_secret(secret, cluster.secret_fingerprint, secret_file)
    drop_percent = settings.pop("drop_percent", 0)
    server = _server(cluster, node, settings)
    return NodeConfig(file=file, cluster=cluster, node=node, server=server, secret=secret, drop_percent=drop_percent)


def _server(cluster: ClusterConfig, node: Node, settings: dict[str, object]) -> ServerConfig:
    """A client manager listens where the cluster file says that clients reach it, unless told otherwise."""
    if node.client is not None:
        host, _, port = node.client.rpartition(":")
        settings = {"host": host.strip("[]"), "port": int(port)} | settings
    elif {"host", "port"} & settings.keys():
        raise ConfigError(f"The node {node.name} is no client manager, so `host` and `port` mean nothing to it.")
    return ServerConfig(node=node.name, site=cluster.name, **settings)  # type: ignore[arg-type]


assert {setting.name for setting in fields(ServerConfig)} >= _NOT_OURS
