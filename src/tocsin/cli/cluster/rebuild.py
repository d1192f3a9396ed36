"""Making votes anew for a group whose votes are lost for good: what it risks, and whether there is reason for it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tocsin.cli.cluster.directory import ClusterDirectory
from tocsin.cluster.group_config import GroupConfig
from tocsin.model.errors import IllegalState
from tocsin.node.cluster_config import Group
from tocsin.node.cluster_init import group_folder
from tocsin.node.votes_rebuilt import FoundLog, find_log, rebuild_votes


@dataclass(frozen=True, slots=True)
class Plan:
    node: str
    group: Group
    found: FoundLog

    def sentence(self) -> str:
        return (
            f"{self.node} has records up to {self.found.end.lsn:,}. It will lead {self.group.name} with them, and the"
            " other members are filled from it: what was confirmed behind that record is LOST. Do this only when more"
            f" than half of the group's vote files ({', '.join(self.group.voters)}) are lost for good. If they still"
            " exist somewhere and are started with their old data, the group is led twice, and one half is lost."
        )


def plan_of(cluster: ClusterDirectory, node: str, group_name: str) -> Plan:
    """Checks that nothing of the group runs here, and that no other member here has more."""
    group = cluster.group_with(node, group_name)
    running = [name for name in cluster.names if name in group.voters and cluster.is_running(name)]
    if running:
        raise IllegalState(
            f"Nodes of {group_name} run: {', '.join(running)}. Votes are made anew only while no node of the group"
            " runs. Stop all of them first, on the other machines, too."
        )
    plan = Plan(node, group, find_log(cluster.node_config(node), group))
    for other in group.members:
        if other != node and other in cluster.names and (cluster.data_of(other) / group_folder(group.number)).is_dir():
            found = find_log(cluster.node_config(other), group)
            if found.end > plan.found.end:
                raise IllegalState(
                    f"{other} has more: records up to {found.end.lsn:,} of epoch {found.end.epoch}, and {node} up to"
                    f" {plan.found.end.lsn:,} of epoch {plan.found.end.epoch}. Choose {other}."
                )
    return plan


def rebuild(cluster: ClusterDirectory, plan: Plan) -> GroupConfig:
    return rebuild_votes(cluster.node_config(plan.node), plan.group, time.time())
