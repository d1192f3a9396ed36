"""Processes that stand still under load hold up nobody for long, and go on where they were when they wake up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.clusters import ClusterProcesses
from tests.system.ledger import check
from tests.system.load import Load
from tests.system.processes import PATIENCE

import tocsin
from tocsin.model.limits import BUS_DOWN_SECONDS
from tocsin.replication.settings import EJECT_SECONDS

FROZEN_SECONDS = EJECT_SECONDS + 2.5
STALL_SECONDS_MAX = EJECT_SECONDS + 1.0


class Pulse:
    """Sends one small message after the other and remembers the longest wait for a confirmation."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.longest = 0.0
        self.sent = 0
        self._over = threading.Event()
        self._errors: list[Exception] = []

    @contextmanager
    def beating(self) -> Iterator[None]:
        thread = threading.Thread(target=self._beat)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(PATIENCE)
        assert not thread.is_alive() and not self._errors, self._errors

    def _beat(self) -> None:
        try:
            with tocsin.connect(self._url) as connection, connection.session() as session:
                producer = session.producer(session.queue("pulse"))
                producer.send("first")
                while not self._over.is_set():
                    began = time.monotonic()
                    producer.send(f"{self.sent}")
                    self.longest = max(self.longest, time.monotonic() - began)
                    self.sent += 1
        except Exception as error:
            self._errors.append(error)


@contextmanager
def frozen(cluster: ClusterProcesses, name: str) -> Iterator[None]:
    process = cluster.directory.process(name)
    process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.signal(signal.SIGCONT)


def test_a_frozen_client_manager_holds_up_nobody_at_another_one(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster:
        # These prefer the one that will freeze, with much on the way to them.
        load = Load(f"{cluster.url_of('cm-2')},{cluster.directory.config.node('cm-1').client}")
        pulse = Pulse(cluster.url_of("cm-1"))
        with load.running() as ledger, pulse.beating():
            ledger.wait_for(lambda: ledger.confirmations > 500 and ledger.acknowledgements > 100, "there is load")
            already = pulse.sent
            with frozen(cluster, "cm-2"):
                time.sleep(FROZEN_SECONDS)
            assert pulse.sent > already
            cluster.wait_for(lambda seen: seen["well"], "all is well")
            load.finish()
        # Not even until it is known to be gone.
        assert pulse.longest < BUS_DOWN_SECONDS
        check(ledger)
        cluster.check_logs()


def test_a_frozen_backup_is_waited_for_until_it_is_ejected_and_comes_back(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster:
        load, pulse = Load(cluster.url), Pulse(cluster.url)
        with load.running() as ledger, pulse.beating():
            ledger.wait_for(lambda: ledger.confirmations > 500 and ledger.acknowledgements > 100, "there is load")
            primary = cluster.group()["primary"]
            [backup] = {"mm-1a", "mm-1b"} - {primary}
            with frozen(cluster, backup):
                time.sleep(FROZEN_SECONDS)
                already = pulse.sent
                ledger.wait_for(lambda: pulse.sent > already, "it goes on without the backup")
                cluster.wait_for(lambda seen: list(seen["groups"][0]["in_sync"]) == [primary], "it is alone")
            cluster.wait_for(lambda seen: seen["well"], "all is well")
            assert cluster.group()["primary"] == primary
            load.finish()
        assert pulse.longest < STALL_SECONDS_MAX
        check(ledger)
        cluster.check_logs()
