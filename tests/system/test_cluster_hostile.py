"""Hostile clients at a cluster of six processes for a minute, beside a normal producer and consumer: no node stops,
nothing is lost, and the two keep at least half of the rate that they had just before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from tests.system.clusters import ClusterProcesses
from tests.system.processes import PATIENCE, run_command, until

import tocsin

ROOT = Path(__file__).parents[2]
DESCRIPTORS = 400
"""What each node may have open; half-open connections want more than twice as many."""
BEFORE_SECONDS = 8.0
HOSTILE_SECONDS = 60.0
SEED = 1_616
USERS = {"honest": "a good word", "mallory": "another word"}
SHARE_MIN = 0.5


class LimitedCluster(ClusterProcesses):
    """Its nodes may open only so many files, and whoever comes has to log in."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "--profile", "fast")
        users = folder / "users"
        for user, password in USERS.items():
            word = f"{password}\n".encode()
            done = run_command("user", "add", user, "--users", str(users), "--password-stdin", feed=word)
            assert done.returncode == 0, done.stderr
        for name in ("cm-1", "cm-2"):
            file = folder / "nodes" / name / "node.toml"
            file.write_text(f"{file.read_text()}users_file = {json.dumps(str(users))}\n")

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tocsin.cli.main", "cluster", "up", "--detach", "-C", str(self.folder)]
        limited = ["bash", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "bash", *command]
        try:
            done = subprocess.run(limited, capture_output=True, timeout=3 * PATIENCE)
            assert done.returncode == 0, f"{done.stderr.decode()}\n{self.logs()}"
        except BaseException:
            self.kill_all()
            raise
        return self

    @contextmanager
    def explained(self) -> Iterator[None]:
        """What fails inside fails with what the nodes have said."""
        try:
            yield
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()[-20_000:]}") from error

    def check_secrets(self) -> None:
        """No password, key or secret is in anything that nodes show: logs, status files, commands, process lists."""
        status = run_command("cluster", "status", "-C", str(self.folder))
        shown = self.logs() + json.dumps(self.status()) + status.stdout.decode() + status.stderr.decode()
        files = list(self.folder.glob("nodes/*/data/status.json"))
        assert len(files) == len(self.directory.names)
        shown += "".join(file.read_text() for file in files)
        for number in self.processes().values():
            shown += Path(f"/proc/{number}/cmdline").read_text() + Path(f"/proc/{number}/environ").read_text()
        lines = (self.folder / "users").read_text().splitlines()
        secrets = [*USERS.values(), *(word for line in lines for word in line.split(" ")[-3:] if len(word) > 20)]
        secrets += [file.read_text().strip() for file in self.folder.rglob("*secret") if file.stat().st_size < 100]
        assert len(secrets) > 2 + 2 * len(USERS) and all(secrets)
        assert not [number for number, each in enumerate(secrets) if each in shown], "which of the secrets are shown"

    def processes(self) -> dict[str, int]:
        return {node["name"]: node["pid"] for node in self.status()["nodes"]}


class Pair:
    """A producer that waits for each confirmation, and a consumer; what was confirmed, and what came."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self.confirmed: list[str] = []
        self.came: list[str] = []
        self.errors: list[BaseException] = []

    @contextmanager
    def running(self) -> Iterator[Self]:
        threads = [threading.Thread(target=self._guarded, args=(work,)) for work in (self._consume, self._produce)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(3 * PATIENCE)

    def _guarded(self, work: Any) -> None:
        try:
            opened = tocsin.connect(self._url, user="honest", password=USERS["honest"])
            with opened as connection, connection.session() as session:
                work(session)
        except BaseException as error:
            self.errors.append(error)

    def _produce(self, session: tocsin.Session) -> None:
        producer = session.producer(session.queue("honest"))
        while not self._stop.is_set():
            body = f"honest {len(self.confirmed)}"
            producer.send(body)
            self.confirmed.append(body)

    def _consume(self, session: tocsin.Session) -> None:
        consumer = session.consumer(session.queue("honest"))
        end = float("inf")
        while time.monotonic() < end and not (self._stop.is_set() and len(self.came) >= len(self.confirmed)):
            if self._stop.is_set() and end == float("inf"):
                end = time.monotonic() + PATIENCE
            message = consumer.receive(timeout=0.5)
            if message is not None:
                assert isinstance(message.body, str)
                self.came.append(message.body)

    def rate(self, seconds: float) -> float:
        """Messages that came, per second."""
        begun, before = time.monotonic(), len(self.came)
        end = begun + seconds
        while time.monotonic() < end and not self.errors:
            time.sleep(0.05)
        assert not self.errors, [str(error) for error in self.errors]
        return (len(self.came) - before) / (time.monotonic() - begun)


@contextmanager
def hostile(cluster: LimitedCluster) -> Iterator[list[subprocess.Popen[bytes]]]:
    """All kinds at both client managers, the politest that the system knows: what counts is what they make nodes do."""
    started: list[subprocess.Popen[bytes]] = []
    ports = [int(cluster.url_of(name).rpartition(":")[2]) for name in ("cm-1", "cm-2")]
    try:
        for seed, port in enumerate(ports, start=SEED):
            for kind in ("user", "stranger", "half-open"):
                login = ["--login", "mallory", USERS["mallory"]]
                command = [sys.executable, "-m", "tests.system.hostile_clients", "--kind", kind, "--port", str(port)]
                command += ["--seconds", str(HOSTILE_SECONDS), "--seed", str(seed), *login]
                started.append(
                    subprocess.Popen(
                        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        preexec_fn=lambda: os.nice(10) and None,
                    )
                )  # fmt: skip
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                stream.close()


@pytest.mark.timeout(300)
def test_hostile_clients_stop_nobody(tmp_path: Path) -> None:
    with LimitedCluster(tmp_path / "cluster") as cluster:
        cluster.wait_for(lambda seen: seen["well"], "all is well")
        before = cluster.processes()
        pair = Pair(cluster.url)
        with cluster.explained(), pair.running():
            until(lambda: len(pair.came) > 100 or bool(pair.errors), "there is a normal pair")
            alone = pair.rate(BEFORE_SECONDS)
            with hostile(cluster) as clients:
                beside = pair.rate(HOSTILE_SECONDS)
                said = [client.communicate(timeout=3 * PATIENCE) for client in clients]
        assert not pair.errors, pair.errors
        for client, (out, words) in zip(clients, said, strict=True):
            assert client.returncode == 0, words.decode()
            assert json.loads(out)["cases"] > 100
        counts = [json.loads(out) for out, _ in said]
        assert sum(each.get("logins", 0) for each in counts) > 10, counts
        assert max(each.get("most", 0) for each in counts) > DESCRIPTORS, counts
        assert cluster.processes() == before, cluster.logs()
        assert pair.came == pair.confirmed
        assert beside >= SHARE_MIN * alone, f"{beside:.0f} messages a second beside hostile clients, {alone:.0f} before"
        cluster.wait_for(lambda seen: seen["well"], "all is well after it")
        cluster.check_logs()
        cluster.check_secrets()
