"""The network is cut so that the primary is on the wrong side: it stops serving, and one history remains."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.system.cluster_load import load_at, running_cluster, spread, until, url_at, wait_for_load
from tests.system.ledger import check
from tests.system.namespaces import Namespaces
from tests.system.processes import PATIENCE

import tocsin
from tocsin import errors
from tocsin.cli.bench.cluster import OwnCluster
from tocsin.cli.files import ReadOnlyFiles
from tocsin.journal import inspect

NODES = ["cm-1", "cm-2", "mm-1", "mm-2"]
ISLAND_QUEUE = "island"
SILENCE_SECONDS = 3.0
"""Longer than a lease and a fail-over together."""


class Islander:
    """A client whose client manager will be cut off together with the primary."""

    def __init__(self, url: str) -> None:
        self._connection = tocsin.connect(url)
        self._session = self._connection.session(ack="client")
        queue = self._session.queue(ISLAND_QUEUE)
        self._producer = self._session.producer(queue)
        self._producer.send_many([f"before the cut {number}" for number in range(10)])
        self._consumer = self._session.consumer(queue, prefetch=1)
        first = self._consumer.receive(PATIENCE)
        assert first is not None and first.body == "before the cut 0"
        self._session.acknowledge()

    def speak(self) -> None:
        self.handle = self._producer.send_nowait("from the island")

    def check_silence(self) -> None:
        """Nothing is confirmed any more, and of the nine messages that wait there nothing is delivered."""
        with pytest.raises(errors.TimedOut):
            self.handle.wait(SILENCE_SECONDS)
        assert self._consumer.receive(SILENCE_SECONDS) is None

    def check_rest(self) -> None:
        """What waited is confirmed, and everything comes once each, in order, or marked."""
        self.handle.wait(PATIENCE)
        firsts: list[str] = []
        while (message := self._consumer.receive(1.0)) is not None:
            if message.body in firsts:
                assert message.redelivered
            else:
                firsts.append(str(message.body))
            self._session.acknowledge()
        expected = [*(f"before the cut {number}" for number in range(1, 10)), "from the island"]
        assert firsts == expected, firsts

    def close(self) -> None:
        self._connection.close()


def epoch_of(cluster: OwnCluster, name: str) -> int:
    report = cluster.report(name)
    return 0 if report is None else report.epoch


def other_leads(cluster: OwnCluster, old: str) -> Callable[[], bool]:
    return lambda: cluster.primary() not in (None, old)


@pytest.mark.timeout(180)
def test_a_primary_that_is_cut_off_stops_serving_and_joins_again(tmp_path: Path) -> None:
    with (
        Namespaces(NODES) as network,
        running_cluster(tmp_path, spread(network, client_managers=2, members=2), network) as cluster,
        load_at(network, "cm-1", url_at(cluster, "cm-1")) as (load, ledger),
        closing(network.inside("cm-2", lambda: Islander(url_at(cluster, "cm-2")))) as islander,
    ):
        wait_for_load(ledger, confirmed=500, settled=100)
        old = cluster.primary()
        assert old is not None
        old_epoch = epoch_of(cluster, old)
        network.isolate([old, "cm-2"])
        network.inside("cm-2", islander.speak)
        until(cluster, ledger, other_leads(cluster, old), "has another primary")
        wait_for_load(ledger, confirmed=500, settled=100)
        islander.check_silence()
        assert epoch_of(cluster, old) == old_epoch, "nobody has told it, so it cannot know of the new epoch"
        new = cluster.primary()
        assert new is not None and epoch_of(cluster, new) > old_epoch

        network.heal()
        until(cluster, ledger, cluster.is_well, "is whole again")
        assert cluster.primary() == new, "who led on the island does not take over again"
        wait_for_load(ledger, confirmed=500, settled=100)
        network.inside("cm-2", islander.check_rest)
        load.finish()
    check(ledger)
    check_one_history(cluster, old_epoch)


def records_of(cluster: OwnCluster, name: str) -> dict[int, tuple[int, int, bytes]]:
    """(kind, epoch, content) of each record in a member's journal, by LSN."""
    dumped = inspect.dump(ReadOnlyFiles(cluster.member_folder(name)))
    found = [each for each in dumped if isinstance(each, inspect.DumpedRecord)]
    return {int(each.lsn): (each.kind, each.epoch, bytes(each.payload)) for each in found}


def check_one_history(cluster: OwnCluster, old_epoch: int) -> None:
    """Both members have the same records at the same places, from before the cut and from after it."""
    one, other = (records_of(cluster, name) for name in cluster.members)
    shared = sorted(one.keys() & other.keys())
    different = [lsn for lsn in shared if one[lsn] != other[lsn]]
    assert not different, f"the histories part at LSN {different[0]}"
    epochs = {one[lsn][1] for lsn in shared}
    assert old_epoch in epochs and max(epochs) > old_epoch, epochs


@pytest.mark.timeout(120)
def test_a_backup_that_is_cut_off_changes_nothing_for_clients(tmp_path: Path) -> None:
    with (
        Namespaces(NODES) as network,
        running_cluster(tmp_path, spread(network, client_managers=2, members=2), network) as cluster,
        load_at(network, "cm-1", url_at(cluster, "cm-1")) as (load, ledger),
    ):
        primary = cluster.primary()
        backup = next(name for name in cluster.members if name != primary)
        number, epoch = cluster.config.node(backup).number, cluster.leading_report().epoch
        network.isolate([backup])
        until(cluster, ledger, lambda: number not in cluster.leading_report().in_sync, "goes on without the backup")
        wait_for_load(ledger, confirmed=500, settled=100)
        network.heal()
        until(cluster, ledger, cluster.is_well, "is whole again")
        assert cluster.leading_report().epoch == epoch
        load.finish()
    check(ledger)
