"""Where a cluster of this machine lives: its configuration and its nodes' folders."""

from __future__ import annotations

import signal
from pathlib import Path

from tocsin.cli.cluster.processes import NodeProcess, until
from tocsin.model.errors import ConfigError, TimedOut
from tocsin.node.cluster_config import ClusterConfig, Group
from tocsin.node.cluster_file import read_cluster_file
from tocsin.node.cluster_init import CLUSTER_FILE, DATA, NODE_FILE, NODES
from tocsin.node.node_config import NodeConfig, load_node_config
from tocsin.node.status_file import GroupReport, NodeStatus, read_status

START_SECONDS_MAX = 30.0
DRAIN_SECONDS_MAX = 30.0


class ClusterDirectory:
    """Nodes whose folder is not here are those of other machines: nothing is done to them."""

    def __init__(self, path: Path) -> None:
        if not (path / CLUSTER_FILE).exists():
            raise ConfigError(f"There is no cluster in {path}; `tocsin cluster up` or `tocsin cluster init` makes one.")
        self.path = path
        self.config: ClusterConfig = read_cluster_file(path / CLUSTER_FILE)
        self.names = [node.name for node in self.config.nodes if (self._folder(node.name) / NODE_FILE).exists()]
        if not self.names:
            raise ConfigError(f"The cluster in {path} has no node on this machine: {path / NODES} holds none.")
        self._processes = {name: NodeProcess(self._folder(name)) for name in self.names}

    def _folder(self, name: str) -> Path:
        return self.path / NODES / name

    def data_of(self, name: str) -> Path:
        return self._folder(name) / DATA

    def node_config(self, name: str) -> NodeConfig:
        """Of a node of this machine."""
        self.process(name)
        return load_node_config(self._folder(name) / NODE_FILE)

    def group_with(self, member: str, name: str) -> Group:
        """The group of this name, which the node must be a member of."""
        group = next((group for group in self.config.groups if group.name == name), None)
        if group is None:
            names = ", ".join(each.name for each in self.config.groups)
            raise ConfigError(f"There is no group {name!r} in this cluster; it has {names}.")
        if member not in group.members:
            raise ConfigError(f"{member} is no member of {name}; its members are {', '.join(group.members)}.")
        return group

    def process(self, name: str) -> NodeProcess:
        self.config.node(name)
        if name not in self._processes:
            raise ConfigError(f"The node {name} is not on this machine: {self._folder(name)} does not exist.")
        return self._processes[name]

    def is_running(self, name: str) -> bool:
        return self.process(name).pid() is not None

    @property
    def url(self) -> str:
        """For clients: any client manager will do."""
        hosts = [node.client for node in self.config.client_managers if node.client is not None]
        return f"tocsin://{','.join(hosts)}"

    def status_of(self, name: str) -> NodeStatus | None:
        """What the running process of a node said last; what an earlier one has left says nothing."""
        pid = self.process(name).pid()
        said = read_status(self._folder(name) / DATA)
        return said if said is not None and said.pid == pid else None

    def last_words_of(self, name: str) -> tuple[GroupReport, ...]:
        """What a node knew of its groups, also one that runs no more."""
        said = read_status(self._folder(name) / DATA)
        return () if said is None else said.groups

    def has_died(self, name: str) -> bool:
        """It runs no more and has left its last words behind, which one that stops in order takes away."""
        return self.process(name).pid() is None and read_status(self._folder(name) / DATA) is not None

    def start(self, name: str, *arguments: str) -> bool:
        """Starts the process; False when it runs already. `wait_until_started` is the other half."""
        process = self.process(name)
        if process.pid() is not None:
            return False
        process.start(["node", "--config", str(self._folder(name) / NODE_FILE), *arguments])
        return True

    def wait_until_started(self, name: str, patience_s: float = START_SECONDS_MAX) -> None:
        """Returns when the node has read its data and speaks."""
        process = self.process(name)

        def settled() -> bool:
            return self.status_of(name) is not None or process.pid() is None

        if not until(settled, patience_s):
            raise TimedOut(f"The node {name} did not start within {patience_s:g} s; its log is {process.log}.")
        if process.pid() is None:
            raise ConfigError(f"The node {name} ended at once. It said last: {process.last_words()}")

    def kill(self, name: str) -> bool:
        """As a power failure of that node; False when it did not run."""
        process = self.process(name)
        was_there = process.signal(signal.SIGKILL)
        process.wait_until_gone(DRAIN_SECONDS_MAX)
        return was_there

    def ask_to_stop(self, name: str) -> bool:
        return self.process(name).signal(signal.SIGTERM)

    def wait_until_stopped(self, name: str, patience_s: float = DRAIN_SECONDS_MAX) -> bool:
        """False when it had to be killed after all: nothing that was confirmed is lost by that."""
        if self.process(name).wait_until_gone(patience_s):
            return True
        self.kill(name)
        return False
