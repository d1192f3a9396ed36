"""What a client manager knows of the cluster, for the request cluster.status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.bus.membership import MemberState
from tocsin.client_manager.group_link import GroupLink, LinkPhase
from tocsin.cluster.envelope import GroupStatus, MemberRole
from tocsin.model.faults import Faults


class ClusterStatus:
    def __init__(self, node: int, links: Mapping[int, GroupLink], names: Mapping[int, str], faults: Faults) -> None:
        self._node = node
        self._links = links
        self._names = names
        self._faults = faults
        self._heard: dict[int, dict[int, GroupStatus]] = {group: {} for group in links}
        self._members: dict[int, dict[int, MemberState]] = {group: {} for group in links}

    def take(self, group: int, sender: int, status: GroupStatus) -> None:
        self._heard[group][sender] = status

    def member_changed(self, group: int, node: int, boot: int, state: MemberState) -> None:
        self._members[group][node] = state

    def fields(self) -> dict[str, Any]:
        here: dict[str, Any] = {
            "node": self._node,
            "name": self._names.get(self._node, ""),
            "state": MemberState.UP.value,
        }
        here["faults"] = self._faults.count
        return {"groups": [self._group(link) for link in self._links.values()], "client_managers": [here]}

    def _group(self, link: GroupLink) -> dict[str, Any]:
        heard = self._heard[link.group]
        leading = heard.get(link.primary)
        if leading is not None and leading.role is not MemberRole.PRIMARY:
            leading = None
        nodes = sorted({*heard, *self._members[link.group], *(leading.members if leading is not None else ())})
        fields: dict[str, Any] = {
            "group": link.group, "primary": link.primary, "epoch": link.epoch, "linked": link.phase is LinkPhase.UP,
            "members": [self._member(link.group, node) for node in nodes],
        }  # fmt: skip
        if leading is not None:
            fields |= {
                "in_sync": list(leading.in_sync), "committed": leading.committed, "last": leading.last,
                "destinations": leading.destinations, "live_bytes": leading.live_bytes,
                "free_bytes": leading.free_bytes, "unclean_epoch": leading.unclean_epoch,
                "unclean_lsn": leading.unclean_lsn, "stalled": leading.stalled,
                "voteless": [self._named(node) for node in leading.voteless],
                "unheard": [self._named(node) for node in leading.unheard],
            }  # fmt: skip
        return fields

    def _named(self, node: int) -> str:
        return self._names.get(node, "") or f"node {node}"

    def _member(self, group: int, node: int) -> dict[str, Any]:
        state = self._members[group].get(node)
        status = self._heard[group].get(node)
        fields: dict[str, Any] = {
            "node": node, "name": self._names.get(node, ""), "state": "unknown" if state is None else state.value,
        }  # fmt: skip
        if status is not None:
            role = status.role.name.lower().replace("_", " ")
            fields |= {
                "role": role, "applied": status.committed, "last": status.last, "free_bytes": status.free_bytes,
                "damaged": status.damaged, "mended": status.mended,
            }  # fmt: skip
        return fields
