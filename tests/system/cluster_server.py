"""A cluster in the place of a server: to clients the two are the same, so the same tests must pass."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Self

from tests.system.clusters import ClusterProcesses

CLIENT_MANAGERS = ("cm-1", "cm-2")


class ClusterServer:
    """Two client managers, two groups of two; each look at `url` names the other client manager."""

    def __init__(self, folder: Path) -> None:
        self._cluster = ClusterProcesses(folder, "--profile", "fast", settings="")
        self._urls = cycle(self._cluster.url_of(name) for name in CLIENT_MANAGERS)

    @property
    def url(self) -> str:
        return next(self._urls)

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.__exit__()
        self._cluster.check_logs()
