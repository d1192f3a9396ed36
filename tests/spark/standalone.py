"""A Spark standalone cluster of processes on this machine, from the pyspark package alone: a master and workers.

Everything listens on the loopback address and on free ports, with little memory. Each process leads a session of its
own, to which all that it starts belong, executors and their Python workers too; so the end of one is the end of all.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.system.processes import HOST, free_port, until

from tocsin.spark.class_cache import java_options
from tocsin.spark.java import find_java
from tocsin.spark.packing import spark_home, submit_command

START_SECONDS = 60.0
END_SECONDS = 20.0
WORKERS = 2
WORKER_MEMORY = "640m"
JAVA = find_java()
# A short life: what the second compiler and a parallel collector gain, they never earn back here.
SHORT_LIVED = " ".join(java_options(JAVA, quick=True))
SMALL = {
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_SET_PARENT_DEATH_SIGNAL = 1
_LIBC = ctypes.CDLL(None)


class SparkProcess:
    """One of Spark's programs with all that it starts. It does not outlive the tests, however they end."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path) -> None:
        self._log = log
        with open(log, "ab") as said:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=_end_with_us,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def members(self) -> list[int]:
        """Process ids of the whole session."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and _session_of(int(entry)) == self._process.pid:
                found.append(int(entry))
        return found

    def executors(self) -> list[int]:
        return [pid for pid in self.members() if _EXECUTOR in _command_of(pid)]

    def kill(self) -> None:
        """As `kill -9` does to all of them at once: nothing is said, nothing is saved."""
        for pid in self.members():
            kill(pid)
        self._process.wait(END_SECONDS)

    def stop(self) -> int:
        """Asks it to stop; its exit code."""
        self._process.terminate()
        return self.wait(END_SECONDS)

    def wait(self, seconds: float) -> int:
        """The exit code of a program that ends by itself."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self._log.name} did not end within {seconds:g} s: {self.said()}") from None

    def said(self) -> str:
        return self._log.read_text(errors="replace")


class StandaloneCluster:
    """One master, two workers with one core each. Use it in a `with` statement."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._web_port = free_port(), free_port()
        self.url = f"spark://{HOST}:{self.port}"
        self._started: list[SparkProcess] = []
        self._drivers = 0
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        try:
            master = ("--host", HOST, "--port", str(self.port), "--webui-port", str(self._web_port))
            self._daemon("master", "org.apache.spark.deploy.master.Master", *master)
            until(self._answers, "Spark's master answers", START_SECONDS)
            for number in range(1, WORKERS + 1):
                place = ("--host", HOST, "--port", "0", "--webui-port", "0", "--work-dir", str(self.folder / "work"))
                size = ("--cores", "1", "--memory", WORKER_MEMORY)
                self._daemon(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *place, *size, self.url)
            until(lambda: self.state()["aliveworkers"] == WORKERS, "all workers are registered", START_SECONDS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._started):
            process.kill()

    def _daemon(self, name: str, program: str, *arguments: str) -> None:
        command = [str(spark_home() / "bin" / "spark-class"), program, *arguments]
        self._start(command, name)

    def _start(self, command: Sequence[str], name: str, folder: Path | None = None) -> SparkProcess:
        log = self.folder / f"{name}.log"
        process = SparkProcess(command, self._environment(), log, folder or self.folder)
        self._started.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        """Of an account of its own on a machine of the cluster: nothing says where tocsin's sources are."""
        foreign = ("PYTHON", "PYSPARK", "SPARK", "TOCSIN")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {
            **inherited,
            "JAVA_HOME": str(JAVA.home),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_PUBLIC_DNS": HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
            "SPARK_LAUNCHER_OPTS": SHORT_LIVED,
        }

    def _answers(self) -> bool:
        (master,) = self._started
        assert master.is_running, f"Spark's master ended: {master.said()}"
        try:
            return bool(self.state()["status"] == "ALIVE")
        except (OSError, ValueError):
            # Not there yet, or there but with another page for the moment.
            return False

    def state(self) -> Any:
        """What the master's web page says: workers and applications."""
        with urllib.request.urlopen(f"http://{HOST}:{self._web_port}/json/", timeout=5) as answer:
            return json.load(answer)

    def submit(
        self,
        script: Path,
        *arguments: str,
        py_files: Sequence[Path] = (),
        archives: Sequence[str] = (),
        python: Path | str = sys.executable,
        folder: Path | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> SparkProcess:
        """A driver on this machine, in a folder; `python` is that of the executors."""
        command = submit_command(
            script,
            arguments,
            master=self.url,
            py_files=py_files,
            archives=archives,
            driver_python=sys.executable,
            executor_python=str(python),
            conf={**SMALL, **(conf or {})},
        )
        self._drivers += 1
        return self._start(command, f"driver-{self._drivers}", folder)

    def executors(self) -> list[int]:
        """Process ids of all executors that run now."""
        return [pid for process in self._started for pid in process.executors()]

    def executors_started(self) -> int:
        """How many the latest application has had."""
        latest = max((self.folder / "work").glob("app-*"))
        return len(list(latest.iterdir()))


def kill(pid: int) -> None:
    """kill -9, also of one that was faster."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _end_with_us() -> None:
    _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
