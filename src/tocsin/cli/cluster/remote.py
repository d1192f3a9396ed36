"""The state of a cluster on other machines, as one of its client managers knows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tocsin.cli.cluster.status import ClusterStatus, GroupLine, NodeLine

_STATES = {"up": "running", "suspected": "silent", "down": "stopped"}


def from_client_manager(said: Mapping[str, Any], url: str) -> ClusterStatus:
    """`said` is the answer to the request cluster.status; of other client managers it says nothing."""
    groups = said.get("groups", [])
    nodes: dict[str, NodeLine] = {}
    for node in said.get("client_managers", []):
        nodes[_name(node)] = NodeLine(_name(node), ("cm",), "running", None, url, 0, 0, {})
    for group in groups:
        for member in group["members"]:
            name, state = _name(member), _STATES.get(member["state"], "unknown")
            known = nodes.get(name) or NodeLine(name, ("mm",), state, None, None, 0, 0, {})
            known.groups[_group_name(group)] = str(member.get("role", "unknown"))
            nodes[name] = known
    return ClusterStatus("", url, tuple(nodes[name] for name in sorted(nodes)), tuple(map(_group_line, groups)))


def _group_line(group: Mapping[str, Any]) -> GroupLine:
    names = {member["node"]: _name(member) for member in group["members"]}
    unheard = set(group.get("unheard", ()))
    in_sync = [node for node in group.get("in_sync", []) if names.get(node) not in unheard]
    # One that stands still takes no link of a client manager, but it leads, as it says itself.
    there = {member["node"] for member in group["members"] if member["state"] == "up"}
    stalled = group.get("stalled", False) and group["primary"] in there
    leads = (group["linked"] or stalled) and group["primary"] in in_sync
    return GroupLine(
        name=_group_name(group),
        primary=names.get(group["primary"]) if leads else None,
        epoch=group["epoch"],
        in_sync=_names(in_sync, names),
        out_of_sync=_names([node for node in names if node not in in_sync], names),
        witnesses=(),
        last_lsn=group.get("last", 0),
        committed_lsn=group.get("committed", 0),
        destinations=group.get("destinations", 0),
        live_bytes=group.get("live_bytes", 0),
        unclean_epoch=group.get("unclean_epoch", 0),
        unclean_lsn=group.get("unclean_lsn", 0),
        damaged={_name(member): member["damaged"] for member in group["members"] if member.get("damaged")},
        mended={_name(member): member["mended"] for member in group["members"] if member.get("mended")},
        stalled=group.get("stalled", False),
        voteless=tuple(group.get("voteless", ())) if leads else (),
        electable=_names(group.get("in_sync", ()), names),
    )


def _group_name(group: Mapping[str, Any]) -> str:
    return f"group-{group['group']}"


def _name(node: Mapping[str, Any]) -> str:
    return node["name"] or f"node {node['node']}"


def _names(numbers: Iterable[int], names: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(names.get(number, f"node {number}") for number in numbers)
