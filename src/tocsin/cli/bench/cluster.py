"""The cluster under test: every node a `tocsin node` of its own on this machine, in a directory that goes away."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tocsin.cli.bench.process import (
    BenchFailed,
    cpu_seconds,
    ending_held,
    on_memory_disk,
    resident_mib,
    start_module,
)
from tocsin.cli.output import note
from tocsin.node.cluster_config import ClusterConfig
from tocsin.node.cluster_init import DATA, NODE_FILE, NODES, MakeConfig, create_cluster, group_folder
from tocsin.node.cluster_layout import local_cluster
from tocsin.node.status_file import GroupReport, NodeStatus, read_status

WELL_SECONDS_MAX = 60.0
TELLING_SECONDS = 1.2
"""After so long every node has told its counters anew: it does so twice a second."""
GROUP = 1
"""These clusters have one group."""
_POLL_SECONDS = 0.01
_FRESH_SECONDS = 2.0

Settings = Mapping[str, object]
Prefix = Callable[[str], Sequence[str]]
"""What to put before the command of a node, for one that runs elsewhere than on this machine's own network."""


def shaped(client_managers: int, members: int, profile: str = "default") -> MakeConfig:
    def make(cluster_id: str, fingerprint: str) -> ClusterConfig:
        return local_cluster(
            name="bench",
            cluster_id=cluster_id,
            secret_fingerprint=fingerprint,
            client_managers=client_managers,
            groups=1,
            members=members,
            port=0,
            profile=profile,
        )

    return make


class OwnCluster:
    """Nodes as child processes that can be killed and started again. A Target, like a single server."""

    def __init__(self, folder: Path, make: MakeConfig, settings: Settings, prefix: Prefix = lambda name: ()) -> None:
        self.folder = folder
        self._directory = folder / "cluster"
        self._prefix = prefix
        self.config = create_cluster(self._directory, make)
        self.url = "tocsin://" + ",".join(str(node.client) for node in self.config.client_managers)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        for name in self.names:
            with open(self._folder(name) / NODE_FILE, "a") as file:
                file.write(lines)

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.config.nodes]

    @property
    def members(self) -> tuple[str, ...]:
        return self.config.groups[0].members

    def _folder(self, name: str) -> Path:
        return self._directory / NODES / name

    def data_folder(self, name: str) -> Path:
        return self._folder(name) / DATA

    def member_folder(self, name: str) -> Path:
        """Where a member keeps its journal."""
        return self.data_folder(name) / group_folder(GROUP)

    def log_file(self, name: str) -> Path:
        return self._folder(name) / "log"

    def start(self, *names: str, arguments: Sequence[str] = ()) -> None:
        """All nodes, when none is named. `arguments` go to each of them."""
        for name in names or self.names:
            command = ["node", "--config", str(self._folder(name) / NODE_FILE), *arguments]
            with open(self.log_file(name), "ab") as log, ending_held():
                self._running[name] = start_module(
                    "tocsin.cli.main",
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    before=self._prefix(name),
                )

    def kill(self, name: str) -> None:
        """As `kill -9` does: nothing is said, nothing is saved."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        self._running[name].send_signal(number)

    def lose_disk(self, name: str) -> None:
        """What a member had stored is gone, as with a new disk; who it is it still knows."""
        folder = self.member_folder(name)
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()

    def stop(self) -> None:
        """All at once and without a word: nobody will read what they leave."""
        for name in list(self._running):
            self.kill(name)

    def is_running(self, name: str) -> bool:
        return name in self._running

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def has_ended(self, name: str) -> bool:
        """Whether it ended by itself, without having been killed."""
        return name in self._running and self._running[name].poll() is not None

    def check_alive(self) -> None:
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                raise BenchFailed(f"The node {name} ended with code {code}.{self.last_words(name)}")

    def last_words(self, name: str) -> str:
        lines = self.log_file(name).read_text(errors="replace").splitlines()
        return " It said last: " + " / ".join(lines[-5:]) if lines else ""

    def status(self, name: str) -> NodeStatus | None:
        """What the running process of a node has said last, if that was a moment ago."""
        process = self._running.get(name)
        said = read_status(self.data_folder(name))
        if process is None or said is None or said.pid != process.pid or time.time() - said.time > _FRESH_SECONDS:
            return None
        return said

    def report(self, name: str) -> GroupReport | None:
        """The group as a node sees it."""
        said = self.status(name)
        return None if said is None else next((each for each in said.groups if each.group == GROUP), None)

    def primary(self) -> str | None:
        """Who leads, by its own word; of several the one with the latest epoch."""
        reports = [(name, self.report(name)) for name in self.members]
        leading = [(each.epoch, name) for name, each in reports if each is not None and each.role == "primary"]
        return max(leading)[1] if leading else None

    def leading_report(self) -> GroupReport:
        """Of a cluster that is well."""
        name = self.primary()
        report = None if name is None else self.report(name)
        if report is None:
            raise BenchFailed("The group has no primary.")
        return report

    def is_well(self) -> bool:
        """Everybody runs and agrees who leads, and all members are in sync."""
        primary = self.primary()
        reports = [self.report(name) for name in self.names]
        if primary is None or None in reports:
            return False
        latest = self.leading_report()
        return set(latest.in_sync) == set(self.config.numbers(self.members)) and all(
            report is not None and (report.epoch, report.primary) == (latest.epoch, latest.primary)
            for report in reports
        )

    def wait_until_well(self, patience_s: float = WELL_SECONDS_MAX) -> None:
        self.wait_until(self.is_well, "is well", patience_s)

    def wait_until(self, condition: Callable[[], bool], what: str, patience_s: float = WELL_SECONDS_MAX) -> None:
        deadline = time.monotonic() + patience_s
        while not condition():
            self.check_alive()
            if time.monotonic() > deadline:
                raise BenchFailed(f"The cluster waited {patience_s:g} s in vain until it {what}: {self.describe()}")
            time.sleep(_POLL_SECONDS)

    def describe(self) -> str:
        """What the nodes say, for an error message."""
        return "; ".join(f"{name}: {self.report(name)}{self.last_words(name)}" for name in self.names)

    def cpu_by_process(self) -> dict[str, float]:
        return {name: cpu_seconds(process.pid) for name, process in self._running.items()}

    def cpu_s(self) -> float | None:
        return sum(self.cpu_by_process().values())

    def rss_mib(self) -> float | None:
        """Of all nodes together."""
        return sum(resident_mib(process.pid) for process in self._running.values())

    def peak_mib(self) -> float | None:
        return sum(resident_mib(process.pid, peak=True) for process in self._running.values())

    def counted(self, counter: str) -> int:
        """What all nodes together have counted on the bus so far, by their latest word."""
        said = [self.status(name) for name in self.names]
        if None in said:
            raise BenchFailed(f"Not all nodes tell what they count: {self.describe()}")
        return sum(status.bus[counter] for status in said if status is not None)


@contextmanager
def own_cluster(
    client_managers: int, members: int, profile: str = "default", settings: Settings | None = None
) -> Iterator[OwnCluster]:
    """All its nodes run and agree. Under the working directory, because /tmp is often memory."""
    with made_cluster(shaped(client_managers, members, profile), settings) as cluster:
        cluster.start()
        cluster.wait_until_well()
        yield cluster


@contextmanager
def made_cluster(make: MakeConfig, settings: Settings | None = None) -> Iterator[OwnCluster]:
    """A new cluster of which no node runs yet."""
    with tempfile.TemporaryDirectory(prefix=".tocsin-bench-", dir=".") as name:
        folder = Path(name)
        if on_memory_disk(folder):
            note("The working directory is in memory: what a sync costs on a disk is not measured here.")
        cluster = OwnCluster(folder, make, settings or {})
        try:
            yield cluster
        finally:
            cluster.stop()
