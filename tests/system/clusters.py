"""Real clusters for tests: `tocsin cluster` makes and starts them; whatever happens, no process of theirs is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.system.processes import run_command, until

from tocsin.cli.cluster.directory import ClusterDirectory
from tocsin.cli.cluster.status import look

# Small files are made quickly, and even little load meets a change of segments.
_SMALL = "segment_bytes = 1048576\nmax_message_bytes = 131072\n"
READY_SECONDS = 30.0


class ClusterProcesses:
    """In `folder`; of two client managers and two groups of two, unless told otherwise."""

    def __init__(self, folder: Path, *shape: str, settings: str = _SMALL) -> None:
        self.folder = folder
        self.command("init", "--port", "0", *shape)
        for file in folder.glob("nodes/*/node.toml"):
            file.write_text(file.read_text() + settings)
        self.directory = ClusterDirectory(folder)

    @property
    def url(self) -> str:
        return self.directory.url

    def url_of(self, name: str) -> str:
        return f"tocsin://{self.directory.config.node(name).client}"

    def command(self, verb: str, *arguments: str, code: int = 0) -> Any:
        """One command, which must end with this code; what it said in JSON."""
        done = run_command("cluster", verb, *arguments, "-C", str(self.folder), "--json")
        assert done.returncode == code, f"{verb} ended with {done.returncode}: {done.stderr.decode()}\n{self.logs()}"
        return json.loads(done.stdout)

    def status(self) -> Any:
        """What `tocsin cluster status --json` says, without the time that a new process takes."""
        return look(self.directory).as_json()

    def group(self, number: int = 1) -> Any:
        return self.status()["groups"][number - 1]

    def wait_for(self, condition: Callable[[Any], bool], what: str, seconds: float = READY_SECONDS) -> Any:
        seen: list[Any] = []

        def holds() -> bool:
            seen[:] = [self.status()]
            return condition(seen[0])

        try:
            until(holds, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(seen[0])}\n{self.logs()}") from None
        return seen[0]

    def logs(self) -> str:
        return "\n".join(f"--- {path.parent.name}\n{path.read_text()}" for path in self.folder.glob("nodes/*/log"))

    def check_logs(self) -> None:
        said = self.logs()
        assert "Traceback" not in said and "should not happen" not in said and "Unhandled" not in said, said

    def __enter__(self) -> Self:
        try:
            self.command("up", "--detach")
        except BaseException:
            self.kill_all()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    def kill_all(self) -> None:
        for name in self.directory.names:
            self.directory.kill(name)
