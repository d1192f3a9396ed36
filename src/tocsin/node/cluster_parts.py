"""Opens what a node is of its cluster, from its data directory: members of groups, witnesses, a client manager."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field

from tocsin.client_manager.cluster_port import ClusterClients
from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.message_manager.destination import Options
from tocsin.message_manager.machine import Settings as ManagerSettings
from tocsin.model.errors import JournalDamaged
from tocsin.model.faults import Faults
from tocsin.node.access_files import AccessFiles
from tocsin.node.bus_networks import channel_bytes, listens, peers, speaks
from tocsin.node.cluster_config import ClusterConfig, Group, Node
from tocsin.node.cluster_identity import check_identity
from tocsin.node.cluster_init import group_folder
from tocsin.node.cluster_node import Membership
from tocsin.node.cluster_secret import token_secret
from tocsin.node.group_member import GroupMember
from tocsin.node.identity_files import next_boot
from tocsin.node.node_config import NodeConfig
from tocsin.node.voter_host import VoterHost
from tocsin.runtime.descriptors import connections_max
from tocsin.runtime.disk import Disk, SystemRandom
from tocsin.runtime.local import host_identity
from tocsin.runtime.ports import Clock

log = logging.getLogger("tocsin")


@dataclass(slots=True)
class NodeParts:
    boot: int
    members: dict[int, GroupMember]
    witnesses: dict[int, VoterHost]
    clients: ClusterClients | None
    faults: Faults = field(default_factory=Faults)
    """Mistakes of ours that clients and peers have met, in all parts."""

    def close(self) -> None:
        for member in self.members.values():
            member.close()


def memberships(cluster: ClusterConfig, node: Node) -> dict[int, Membership]:
    """How a node takes part in the channel of each group it has to do with."""
    return {
        group.number: Membership(
            frozenset(cluster.numbers(group.members)),
            frozenset(listens(group, node)),
            frozenset(speaks(group, node)),
            channel_bytes(cluster, group),
            peers(cluster, group, node),
        )
        for group in cluster.groups_of(node)
    }


def open_parts(config: NodeConfig, clock: Clock, access: AccessFiles) -> NodeParts:
    """Reads the data directory, whatever a crash left of it. The boot counter is durable before anything speaks."""
    cluster, node = config.cluster, config.node
    files = Disk(config.server.data_dir)
    if check_identity(files, cluster, node):
        log.warning(
            "The data directory of %s was empty: the node is new to its groups, and they fill it. A new cluster is"
            " begun by `tocsin cluster init`, not by starting nodes.",
            node.name,
        )
    parts = NodeParts(next_boot(files, clock.wall()), {}, {}, None)
    try:
        for group in cluster.groups:
            if node.name in group.voters:
                files.make_folder(group_folder(group.number))
                files.sync_directory("")
                _open_group(parts, config, group, clock)
        if node.is_client_manager:
            parts.clients = _open_clients(config, parts.boot, access, parts.faults, len(parts.members))
    except BaseException:
        parts.close()
        raise
    return parts


def _open_group(parts: NodeParts, config: NodeConfig, group: Group, clock: Clock) -> None:
    """Damage is told with its folder: a node may have several groups, each with files of the same names."""
    try:
        if config.node.name in group.members:
            parts.members[group.number] = _open_member(config, group, parts.boot, clock, parts.faults)
        else:
            parts.witnesses[group.number] = _open_witness(config, group, parts.boot, clock)
    except JournalDamaged as error:
        raise JournalDamaged(f"{config.server.data_dir / group_folder(group.number)}: {error}") from error


def _group_files(config: NodeConfig, group: Group) -> Disk:
    return Disk(config.server.data_dir / group_folder(group.number))


def _open_member(config: NodeConfig, group: Group, boot: int, clock: Clock, faults: Faults) -> GroupMember:
    server = config.server
    defaults = Options(redelivery_limit=server.redelivery_limit, backoff_ms=server.redelivery_backoff_ms)
    return GroupMember(
        group.number,
        config.cluster.group_settings(group),
        config.node.number,
        boot,
        _group_files(config, group),
        clock,
        SystemRandom(),
        random.SystemRandom().random,
        ManagerSettings(
            server.lease_s,
            server.cache_bytes,
            defaults,
            server.session_grace_s,
            group.copies,
            config.cluster.cluster_id,
            host_identity(),
            faults,
        ),
        server.segment_bytes,
        client_managers=tuple(node.number for node in config.cluster.client_managers),
    )


def _open_witness(config: NodeConfig, group: Group, boot: int, clock: Clock) -> VoterHost:
    settings = config.cluster.group_settings(group)
    files = _group_files(config, group)
    return VoterHost(group.number, settings, config.node.number, files, clock, SystemRandom(), boot)


def _open_clients(config: NodeConfig, boot: int, access: AccessFiles, faults: Faults, journals: int) -> ClusterClients:
    server, cluster = config.server, config.cluster
    settings = ClientSettings(
        message_bytes_max=server.max_message_bytes,
        block_bytes_max=server.max_block_bytes,
        host=host_identity(),
        heartbeat=server.heartbeat_s,
        grace=server.session_grace_s,
        login=server.login_s,
        clustered=True,
        faults=faults,
        connections_max=connections_max(journals),
    )
    login = Login(token_secret(config.secret), SystemRandom().bytes, access.finder, access.bindings, access.shapes)
    identities = Identities(int(cluster.cluster_id[:4], 16), config.node.number, boot)
    groups = tuple(group.number for group in cluster.groups)
    names = {node.number: node.name for node in cluster.nodes}
    return ClusterClients(settings, login, identities, cluster.slot_table(), groups, names)
