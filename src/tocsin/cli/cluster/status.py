"""The state of a cluster from what its nodes say of themselves: who runs, who leads, who is in sync."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from tocsin.cli.cluster.directory import ClusterDirectory
from tocsin.node.cluster_config import Group
from tocsin.node.status_file import GroupReport, NodeStatus

STALE_SECONDS = 3.0
"""A node that said nothing for so long hangs, or its disk does."""


@dataclass(frozen=True, slots=True)
class NodeLine:
    name: str
    roles: tuple[str, ...]
    state: str
    """running, silent, stopped, starting or draining."""
    pid: int | None
    url: str | None
    connections: int
    forged: int
    groups: dict[str, str]
    """Its role in each group it takes part in."""


@dataclass(frozen=True, slots=True)
class GroupLine:
    name: str
    primary: str | None
    epoch: int
    in_sync: tuple[str, ...]
    out_of_sync: tuple[str, ...]
    witnesses: tuple[str, ...]
    last_lsn: int
    committed_lsn: int
    destinations: int
    live_bytes: int
    unclean_epoch: int = 0
    """Of the last promotion that an operator forced; 0: there was none."""
    unclean_lsn: int = 0
    damaged: dict[str, int] = field(default_factory=dict)
    """How many records of it are damaged on the disks of which nodes, and no other one could mend them."""
    mended: dict[str, int] = field(default_factory=dict)
    """How many were damaged and have been put right since the node started."""
    stalled: bool = False
    """There is a primary, but it delivers or confirms nothing."""
    voteless: tuple[str, ...] = ()
    """Voters of which the primary has not heard lately, or whose vote is lost."""
    notes: tuple[str, ...] = ()
    """What nodes want people to know of their part in the group."""
    electable: tuple[str, ...] = ()
    """Who was in sync as far as the register is known, whether it runs or not: nobody else leads by itself."""

    @property
    def state(self) -> str:
        """Well means: every voter has answered lately with a vote that holds, every member is in sync and was heard of
        lately where the primary's log ends, what there was to confirm is confirmed, and no record is known to be
        damaged beyond mending.
        """
        if self.primary is None:
            return "no primary"
        if self.stalled:
            return "stalled"
        return "degraded" if self.out_of_sync or self.voteless or self.damaged else "well"

    @property
    def has_lost_majority(self) -> bool:
        """More than half of the votes are missing. There is an odd number of them, though a client manager names only
        the witnesses that it misses.
        """
        voters = len({*self.in_sync, *self.out_of_sync, *self.witnesses, *self.voteless}) | 1
        return self.stalled and 2 * len(self.voteless) > voters

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why it is not well, in words."""
        if self.primary is None:
            return (self._why_nobody_leads(),)
        found = []
        if self.stalled:
            found.append(f"{self.primary} leads, but delivers and confirms nothing")
        if self.out_of_sync:
            found.append(f"not in sync: {', '.join(self.out_of_sync)}")
        if self.voteless:
            found.append(f"no vote that counts is heard from {', '.join(self.voteless)}")
        if self.has_lost_majority:
            found.append(
                "more than half of the votes are missing. Start those nodes with the data they had; if it is lost for"
                f" good, stop the group and use `tocsin cluster rebuild-votes {self.primary} {self.name}`"
            )
        return tuple(found)

    def _why_nobody_leads(self) -> str:
        """The same in a fail-over, which takes a moment, and when it will never end by itself."""
        who = f" ({' or '.join(self.electable)})" if self.electable else ""
        return (
            f"nobody leads. It takes a member that was in sync{who}, with the data it had, and more than half of the"
            " voters. If every such member's data is lost for good, `tocsin cluster unclean-promote` goes on with"
            " another one"
        )


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    name: str
    url: str
    nodes: tuple[NodeLine, ...]
    groups: tuple[GroupLine, ...]

    @property
    def is_well(self) -> bool:
        """Everybody runs, and every group is well."""
        return all(node.state == "running" for node in self.nodes) and all(
            group.state == "well" for group in self.groups
        )

    @property
    def is_anything_running(self) -> bool:
        return any(node.state != "stopped" for node in self.nodes)

    def as_json(self) -> dict[str, Any]:
        groups = [{**asdict(group), "state": group.state, "troubles": group.troubles} for group in self.groups]
        nodes = [asdict(node) for node in self.nodes]
        return {"cluster": self.name, "url": self.url, "well": self.is_well, "nodes": nodes, "groups": groups}


def look(directory: ClusterDirectory) -> ClusterStatus:
    wall = time.time()
    heard = {name: directory.status_of(name) for name in directory.names}
    nodes = tuple(_node_line(directory, name, heard[name], wall) for name in directory.names)
    said = [status for status in heard.values() if status is not None and wall - status.time < STALE_SECONDS]
    # The others may not have noticed yet.
    dead = {name for name in directory.names if directory.has_died(name)}
    groups = tuple(_group_line(directory, group, said, dead) for group in directory.config.groups)
    secure = any(status.url is not None and status.url.startswith("tocsins:") for status in said)
    url = directory.url.replace("tocsin:", "tocsins:", 1) if secure else directory.url
    return ClusterStatus(directory.config.name, url, nodes, groups)


def _node_line(directory: ClusterDirectory, name: str, said: NodeStatus | None, wall: float) -> NodeLine:
    pid = directory.process(name).pid()
    node = directory.config.node(name)
    if pid is None:
        state = "stopped"
    elif said is None:
        state = "starting"
    elif wall - said.time >= STALE_SECONDS:
        state = "silent"
    else:
        state = "draining" if said.draining else "running"
    names = {group.number: group.name for group in directory.config.groups}
    roles = {} if said is None else {names.get(each.group, str(each.group)): each.role for each in said.groups}
    if said is None:
        return NodeLine(name, node.roles, state, pid, None, 0, 0, roles)
    return NodeLine(name, node.roles, state, pid, said.url, said.connections, said.forged, roles)


def _group_line(directory: ClusterDirectory, group: Group, said: list[NodeStatus], dead: set[str]) -> GroupLine:
    """Who leads says so itself; where it runs on another machine, a client manager has heard it."""
    config = directory.config
    reports = [(status, report) for status in said for report in status.groups if report.group == group.number]
    best = max(reports, key=lambda each: _weight(*each), default=None)
    report = GroupReport(group=group.number, role="unknown") if best is None else best[1]
    unheard = {config.name_of(node) for node in report.unheard}
    in_sync = tuple(name for name in map(config.name_of, report.in_sync) if name not in dead | unheard)
    primary = config.name_of(report.primary) if _leads(reports, report) else None
    # What a primary said of votes before it went says nothing of now.
    told = report.voteless if primary is not None else ()
    lost = {config.name_of(node) for node in told} | (dead & set(group.voters))
    return GroupLine(
        name=group.name,
        primary=None if primary in dead else primary,
        epoch=report.epoch,
        in_sync=in_sync,
        out_of_sync=tuple(name for name in group.members if name not in in_sync),
        witnesses=group.witnesses,
        last_lsn=report.last_lsn,
        committed_lsn=report.committed_lsn,
        destinations=report.destinations,
        live_bytes=report.live_bytes,
        unclean_epoch=report.unclean_epoch,
        unclean_lsn=report.unclean_lsn,
        damaged={status.node: each.damaged for status, each in reports if each.damaged},
        mended={status.node: each.mended for status, each in reports if each.mended},
        stalled=report.stalled,
        voteless=tuple(name for name in group.voters if name in lost),
        notes=tuple(f"{status.node}: {each.note}" for status, each in reports if each.note),
        electable=tuple(map(config.name_of, report.in_sync)),
    )


def _weight(status: NodeStatus, report: GroupReport) -> tuple[int, bool, float]:
    return report.epoch, report.role == "primary" and report.primary == status.number, status.time


def _leads(reports: list[tuple[NodeStatus, GroupReport]], best: GroupReport) -> bool:
    """A name in the register is no proof that somebody serves: it says so itself, or a client manager hears it. What a
    client manager has heard a moment ago counts less than what the node, started anew, says now.
    """
    denied = any(status.number == best.primary and each.role != "primary" for status, each in reports)
    return (
        best.primary != 0
        and not denied
        and any(
            each.epoch == best.epoch
            and each.primary == best.primary
            and each.role in ("primary", "client manager", "witness")
            for _, each in reports
        )
    )
