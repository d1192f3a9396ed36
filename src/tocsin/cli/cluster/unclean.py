"""Leading a group from a member that is not in sync, because those that were will not come back (R13)."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.cli.cluster.directory import ClusterDirectory
from tocsin.cli.cluster.processes import until
from tocsin.cli.cluster.status import GroupLine, look
from tocsin.model.errors import IllegalState, TimedOut

PROMOTION_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Gap:
    """What the member has, and what others were seen to have."""

    node: str
    last_lsn: int
    known_lsn: int
    """The last record that anybody on this machine has said to be committed."""

    @property
    def records(self) -> int:
        return max(0, self.known_lsn - self.last_lsn)

    def sentence(self) -> str:
        if not self.records:
            return (
                f"{self.node} has records up to {self.last_lsn:,}, as many as anybody here knows of; what was confirmed"
                " behind them is lost."
            )
        return (
            f"{self.node} has records up to {self.last_lsn:,}, and records up to {self.known_lsn:,} were confirmed:"
            f" at least {self.records:,} are lost."
        )


def gap_of(cluster: ClusterDirectory, node: str, group_name: str) -> Gap:
    """Checks that there is reason for it: the node is a member, and nobody leads."""
    group = cluster.group_with(node, group_name)
    seen = _line(cluster, group_name)
    if seen.primary is not None and seen.has_lost_majority:
        raise IllegalState(
            f"{group_name} is led by {seen.primary}, which has its records, but most of its votes are lost or away:"
            f" {', '.join(seen.voteless)}. Bring those nodes back with the data they had; if it is lost for good,"
            f" `tocsin cluster rebuild-votes {seen.primary} {group_name}` goes on without it."
        )
    if seen.primary is not None:
        raise IllegalState(f"{group_name} is led by {seen.primary}: there is nothing to promote.")
    known = own = 0
    for name in cluster.names:
        for report in cluster.last_words_of(name):
            if report.group == group.number:
                known = max(known, report.committed_lsn)
                own = report.last_lsn if name == node else own
    return Gap(node, own, known)


def promote(cluster: ClusterDirectory, node: str, group_name: str) -> GroupLine:
    """Starts the node anew with the order to lead; returns when it does."""
    if cluster.ask_to_stop(node):
        cluster.wait_until_stopped(node)
    cluster.start(node, "--unclean-promote", group_name)
    cluster.wait_until_started(node)
    if not until(lambda: _line(cluster, group_name).primary == node, PROMOTION_SECONDS_MAX):
        raise TimedOut(
            f"{node} does not lead {group_name} after {PROMOTION_SECONDS_MAX:g} s. It needs more than half of the"
            f" group's voters: see `tocsin cluster status` and the log {cluster.process(node).log}. If their vote files"
            f" are lost for good, `tocsin cluster rebuild-votes {node} {group_name}` makes new ones."
        )
    return _line(cluster, group_name)


def _line(cluster: ClusterDirectory, group_name: str) -> GroupLine:
    return next(group for group in look(cluster).groups if group.name == group_name)
