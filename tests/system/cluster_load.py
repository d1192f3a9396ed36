"""Real clusters for tests: nodes as processes that are killed, cut off and started again under load."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.ledger import Ledger
from tests.system.load import Load
from tests.system.namespaces import Namespaces
from tests.system.processes import PATIENCE

from tocsin.cli.bench.cluster import OwnCluster
from tocsin.node.cluster_config import CLIENT_MANAGER, MESSAGE_MANAGER, Channel, ClusterConfig, Group, Network, Node
from tocsin.node.cluster_init import MakeConfig

# Small files are made quickly, and even little load meets a change of segments.
SMALL = {"segment_bytes": 1024 * 1024, "max_message_bytes": 128 * 1024}
LEAD_MAX = 3_000
"""How far producers may be ahead of consumers: what a fault leaves behind is soon drained."""
PAUSE_SECONDS = 0.01
"""Several processes and their clients share few cores: at full load a restart would take many seconds."""
CLIENT_PORT = 7177
_LAN = "lan"


@contextmanager
def running_cluster(
    folder: Path, make: MakeConfig, network: Namespaces | None = None, **settings: object
) -> Iterator[OwnCluster]:
    """All nodes run and agree; at the end none has stumbled, and none is left."""
    with started(made_cluster(folder, make, network, **settings)) as cluster:
        yield cluster


def made_cluster(folder: Path, make: MakeConfig, network: Namespaces | None = None, **settings: object) -> OwnCluster:
    """Of which no node runs yet."""
    return OwnCluster(folder, make, {**SMALL, **settings}, (lambda name: ()) if network is None else network.command)


@contextmanager
def started(cluster: OwnCluster) -> Iterator[OwnCluster]:
    try:
        cluster.start()
        cluster.wait_until_well()
        yield cluster
        cluster.check_alive()
        check_logs(cluster)
    finally:
        cluster.stop()


def check_logs(cluster: OwnCluster) -> None:
    """A node says what is wrong in a sentence; a stack trace is a fault of its own."""
    for name in cluster.names:
        said = cluster.log_file(name).read_text(errors="replace")
        assert "Traceback" not in said and "should not happen" not in said and "Unhandled" not in said, (
            f"{name}: {said}"
        )


def wait_for_load(ledger: Ledger, confirmed: int, settled: int = 0) -> None:
    """Returns when so much more is confirmed and acknowledged than now."""
    stored, done = ledger.confirmations + confirmed, ledger.acknowledgements + settled
    ledger.wait_for(
        lambda: ledger.confirmations >= stored and ledger.acknowledgements >= done,
        f"{confirmed} more messages are confirmed and {settled} more acknowledged",
    )


def spread(network: Namespaces, client_managers: int, members: int, *, is_open: bool = False) -> MakeConfig:
    """A cluster with every node on a machine of its own. Clients are on the machines of the client managers, since
    only there they need neither a password nor a certificate; or anywhere, when it is open to them.
    """
    managers = [f"cm-{number}" for number in range(1, client_managers + 1)]
    ranks = [f"mm-{number}" for number in range(1, members + 1)]

    def node(name: str, number: int) -> Node:
        is_manager = name in managers
        host = network.address(name) if is_open else "127.0.0.1"
        return Node(
            name=name,
            number=number,
            roles=(CLIENT_MANAGER,) if is_manager else (MESSAGE_MANAGER,),
            addresses={_LAN: network.address(name)},
            client=f"{host}:{CLIENT_PORT + number}" if is_manager else None,
        )

    def make(cluster_id: str, fingerprint: str) -> ClusterConfig:
        channel = Channel(network=_LAN, address_in="239.77.1.1", address_out="239.77.1.2", port=7400)
        group = Group(
            name="group-1",
            number=1,
            members=tuple(ranks),
            witnesses=(managers[0],) if members % 2 == 0 else (),
            channels=(channel,),
            copies=min(2, members),
            profile="fast",
        )
        return ClusterConfig(
            name="spread",
            cluster_id=cluster_id,
            secret_fingerprint=fingerprint,
            encryption=True,
            networks=(Network(name=_LAN),),
            nodes=tuple(node(name, number) for number, name in enumerate([*managers, *ranks], start=1)),
            groups=(group,),
        )

    return make


def url_at(cluster: OwnCluster, manager: str) -> str:
    """For clients on the machine of that client manager."""
    return f"tocsin://{cluster.config.node(manager).client}"


def until(cluster: OwnCluster, ledger: Ledger, condition: Callable[[], bool], what: str) -> None:
    """The cluster must come to that; an application that fails meanwhile ends the wait."""

    def settled() -> bool:
        return bool(ledger.errors) or condition()

    cluster.wait_until(settled, what)
    if ledger.errors:
        raise ledger.errors[0]


@contextmanager
def load_at(network: Namespaces, machine: str, url: str) -> Iterator[tuple[Load, Ledger]]:
    """Producers and consumers on one machine, such as that of a client manager."""
    load = Load(url, lead_max=LEAD_MAX, pause_s=PAUSE_SECONDS)
    with running_at(network, machine, load):
        yield load, load.ledger


@contextmanager
def running_at(network: Namespaces, machine: str, load: Load) -> Iterator[None]:
    begun, over = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        with load.running():
            begun.set()
            over.wait()

    def run() -> None:
        try:
            network.inside(machine, work)
        except BaseException as error:
            failed.append(error)
        finally:
            begun.set()

    thread = threading.Thread(target=run, name="load")
    thread.start()
    try:
        assert begun.wait(2 * PATIENCE)
        if not failed:
            yield
    except BaseException:
        load.abandon()
        raise
    finally:
        over.set()
        thread.join(4 * PATIENCE)
    if failed:
        raise failed[0]
