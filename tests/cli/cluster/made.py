"""A cluster on disk whose nodes are played: files say that they run and what they are."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from tocsin.cli.cluster import processes
from tocsin.cli.cluster.directory import ClusterDirectory
from tocsin.node.cluster_init import create_cluster
from tocsin.node.cluster_layout import local_cluster
from tocsin.node.status_file import GroupReport, NodeStatus, write_status


def make(folder: Path) -> ClusterDirectory:
    create_cluster(
        folder,
        lambda cluster_id, mark: local_cluster(
            name="played",
            cluster_id=cluster_id,
            secret_fingerprint=mark,
            client_managers=1,
            groups=1,
            members=2,
            port=0,
            profile="default",
        ),
    )
    return ClusterDirectory(folder)


def play(cluster: ClusterDirectory, name: str, *groups: GroupReport, age: float = 0.0, draining: bool = False) -> None:
    """This very process plays the node."""
    folder = cluster.path / "nodes" / name
    pid = os.getpid()
    (folder / "pid").write_text(json.dumps({"pid": pid, "began": processes.began(pid)}))
    number = cluster.config.node(name).number
    status = NodeStatus(
        node=name, number=number, pid=pid, boot=1, time=time.time() - age, digest="", draining=draining, groups=groups
    )
    write_status(folder / "data", status)
