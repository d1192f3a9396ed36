"""What a running node says of itself: `status.json` in its data directory, written anew about twice a second.

For `tocsin cluster status` on the same machine, which thereby works whatever is broken. Nothing reads it to decide
anything, so it is not synced.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

STATUS = "status.json"
_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """A group as one node sees it."""

    group: int
    role: str
    """Of this node in the group: primary, backup, ..., or witness, or client manager."""
    epoch: int = 0
    version: int = 0
    """Of the group's configuration, as a member knows it: every change of the in-sync set is one more."""
    primary: int = 0
    """0: none is known."""
    in_sync: tuple[int, ...] = ()
    last_lsn: int = 0
    committed_lsn: int = 0
    destinations: int = 0
    live_bytes: int = 0
    unclean_epoch: int = 0
    """Of the last promotion that an operator forced; 0: there was none."""
    unclean_lsn: int = 0
    damaged: int = 0
    """Records that this member cannot read, and that no other one could mend."""
    mended: int = 0
    """Damaged records that were put right since it started."""
    stalled: bool = False
    """The primary delivers nothing, or confirms nothing."""
    voteless: tuple[int, ...] = ()
    """Voters of which the primary has not heard lately, or whose vote is lost."""
    unheard: tuple[int, ...] = ()
    """In-sync members of which the primary has not heard lately where its log ends."""
    note: str = ""
    """What a person should know of this node's part in the group: why it has stopped, or begun anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    node: str
    number: int
    pid: int
    boot: int
    time: float
    """Seconds since 1970."""
    digest: str
    """Of the cluster file it runs with."""
    url: str | None = None
    connections: int = 0
    forged: int = 0
    """Datagrams that were not sealed with the cluster's secret."""
    faults: int = 0
    """Mistakes of the node's own that clients and peers have met; each ended what it came with, and is in the log."""
    draining: bool = False
    bus: dict[str, int] = field(default_factory=dict)
    """What the bus has counted."""
    groups: tuple[GroupReport, ...] = field(default=())


def write_status(folder: Path, status: NodeStatus) -> None:
    temporary = folder / (STATUS + ".tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w") as file:
            file.write(json.dumps(asdict(status)))
        os.replace(temporary, folder / STATUS)
    except OSError:
        # A full disk must not end a node that only wanted to say how it is.
        return


def remove_status(folder: Path) -> None:
    (folder / STATUS).unlink(missing_ok=True)


def read_status(folder: Path) -> NodeStatus | None:
    """None when there is none, or none that this release can read."""
    try:
        with open(folder / STATUS, "rb") as file:
            said = json.loads(file.read(_BYTES_MAX))
        groups = tuple(_group(each) for each in said.pop("groups"))
        return NodeStatus(**said, groups=groups)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _group(said: dict[str, Any]) -> GroupReport:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in said.items()}
    return GroupReport(**fields)
