"""What a node knows of itself and of its groups, for `status.json`."""

from __future__ import annotations

import os
from dataclasses import asdict

from tocsin.bus.events import Counters
from tocsin.node.cluster_node import ClusterNode
from tocsin.node.group_member import GroupMember
from tocsin.node.node_config import NodeConfig
from tocsin.node.status_file import GroupReport, NodeStatus
from tocsin.replication.roles import Role
from tocsin.runtime.ports import Clock

_FRESH_SECONDS = 2.0
"""A group whose primary has said nothing for longer has none, as far as a client manager knows."""
# What people call it; in the replication it is one of the ways to follow.
_WORDS = {Role.FOLLOWER: "backup"}


def report(
    config: NodeConfig,
    node: ClusterNode,
    clock: Clock,
    *,
    boot: int,
    url: str | None,
    connections: int,
    draining: bool,
    faults: int,
    counters: Counters,
) -> NodeStatus:
    return NodeStatus(
        node=config.node.name,
        number=config.node.number,
        pid=os.getpid(),
        boot=boot,
        time=clock.wall(),
        digest=config.cluster.digest,
        url=url,
        connections=connections,
        forged=counters.forged,
        faults=faults,
        draining=draining,
        bus=asdict(counters),
        groups=tuple(
            _of_member(group.number, node.members[group.number])
            if group.number in node.members
            else _heard(group.number, node, clock.now())
            for group in config.cluster.groups_of(config.node)
        ),
    )


def note_of(member: GroupMember) -> str:
    """What a person should know of it: why it has stopped, or begun anew."""
    found = (member.alarm, member.older, member.voter.older if member.voter is not None else None)
    return " ".join(text for text in found if text is not None)


def _of_member(group: int, member: GroupMember) -> GroupReport:
    status = member.status()
    return GroupReport(
        group=group,
        role="stopped" if member.alarm is not None else _WORDS.get(member.role, member.role.value),
        epoch=status.epoch,
        version=member.config_version,
        primary=status.primary,
        in_sync=status.in_sync,
        last_lsn=status.last,
        committed_lsn=status.committed,
        destinations=status.destinations,
        live_bytes=status.live_bytes,
        unclean_epoch=status.unclean_epoch,
        unclean_lsn=status.unclean_lsn,
        damaged=status.damaged,
        mended=status.mended,
        stalled=status.stalled,
        voteless=status.voteless,
        unheard=status.unheard,
        note=note_of(member),
    )


def _heard(group: int, node: ClusterNode, now: float) -> GroupReport:
    """What the group's primary has told everybody."""
    role = "witness" if group in node.witnesses else "client manager"
    heard = node.statuses.get(group)
    note = (node.witnesses[group].older or "") if group in node.witnesses else ""
    if heard is None:
        return GroupReport(group=group, role=role, note=note)
    status, at = heard
    return GroupReport(
        group=group,
        role=role,
        epoch=status.epoch,
        primary=status.primary if now - at < _FRESH_SECONDS else 0,
        in_sync=status.in_sync,
        last_lsn=status.last,
        committed_lsn=status.committed,
        destinations=status.destinations,
        live_bytes=status.live_bytes,
        unclean_epoch=status.unclean_epoch,
        unclean_lsn=status.unclean_lsn,
        stalled=status.stalled,
        voteless=status.voteless,
        unheard=status.unheard,
        note=note,
    )
