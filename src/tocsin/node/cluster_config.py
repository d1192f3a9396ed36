"""What all nodes of a cluster must agree on: nodes, groups, networks. Identical everywhere; its digest is compared.

A file of this is TOML; `cluster_file` reads and writes it, and docs/cluster.md explains every line. Objects check
themselves when they are made, so whoever holds a ClusterConfig holds one that can work.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address

from tocsin.cluster.slots import SLOTS, SlotTable
from tocsin.model.errors import ConfigError
from tocsin.model.limits import (
    BUS_CHANNELS_MAX,
    BUS_MEMBERS_MAX,
    CLUSTER_ID_CHARACTERS,
    CLUSTER_NETWORKS_MAX,
    GROUP_LEASE_SECONDS,
    GROUP_MEMBERS_MAX,
    GROUP_VOTERS_MAX,
)
from tocsin.replication.settings import EJECT_SECONDS, GroupSettings

CLIENT_MANAGER = "cm"
MESSAGE_MANAGER = "mm"
ROLES = (CLIENT_MANAGER, MESSAGE_MANAGER)
BUS_PORT_DEFAULT = 7300

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Profile:
    """How soon a group believes that its primary is gone, against how often a hiccup looks like that."""

    lease_seconds: float
    eject_seconds: float


PROFILES: Mapping[str, Profile] = {
    "default": Profile(GROUP_LEASE_SECONDS, EJECT_SECONDS),
    "fast": Profile(0.6, 0.8),
}


@dataclass(frozen=True, kw_only=True)
class Network:
    name: str
    multicast: bool = True
    """Without it, what is for everybody is sent to each of them."""
    mtu: int = 1500
    hops: int = 1


@dataclass(frozen=True, kw_only=True)
class Node:
    name: str
    number: int
    roles: tuple[str, ...]
    addresses: Mapping[str, str]
    """Its address on each network it is on."""
    bus_port: int = BUS_PORT_DEFAULT
    """Its own address on the channel of group g has the port bus_port + g."""
    client: str | None = None
    """host:port where clients reach this client manager."""

    @property
    def is_client_manager(self) -> bool:
        return CLIENT_MANAGER in self.roles

    @property
    def is_message_manager(self) -> bool:
        return MESSAGE_MANAGER in self.roles

    def place(self, group: int, network: str) -> Place:
        return self.addresses[network], self.bus_port + group


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One group's pair of multicast addresses on one network."""

    network: str
    address_in: str
    address_out: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Group:
    name: str
    number: int
    members: tuple[str, ...]
    """The lowest rank first: it is preferred as primary."""
    witnesses: tuple[str, ...]
    channels: tuple[Channel, ...]
    """The first one carries what the members say to each other; the others reach more client managers."""
    copies: int
    profile: str = "default"
    slots: tuple[tuple[int, int], ...] = ()
    """First and last of each run of slots whose names this group keeps; without any at all they go round the groups."""

    @property
    def voters(self) -> tuple[str, ...]:
        return self.members + self.witnesses

    @property
    def networks(self) -> tuple[str, ...]:
        return tuple(channel.network for channel in self.channels)


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """Raises ConfigError, with a sentence that says what to change."""

    name: str
    cluster_id: str
    """Made by `tocsin cluster init`: two clusters of one name are still two."""
    secret_fingerprint: str
    encryption: bool
    networks: tuple[Network, ...]
    nodes: tuple[Node, ...]
    groups: tuple[Group, ...]
    digest: str = field(default="", compare=False)
    """Of the file's meaning: equal on all nodes, whatever comments they have."""

    def __post_init__(self) -> None:
        _check_counts(self)
        _check_unique(self)
        for group in self.groups:
            _check_group(self, group)
        for node in self.nodes:
            _check_node(self, node)
        _check_places(self)
        _check_encryption(self)
        _check_slots(self)

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    def node(self, name: str) -> Node:
        if name not in self._by_name:
            known = ", ".join(sorted(self._by_name))
            raise ConfigError(f"The cluster {self.name} has no node {name!r}; its nodes are {known}.")
        return self._by_name[name]

    def numbers(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.node(name).number for name in names)

    def name_of(self, number: int) -> str:
        return next((node.name for node in self.nodes if node.number == number), f"node {number}")

    @property
    def client_managers(self) -> list[Node]:
        return [node for node in self.nodes if node.is_client_manager]

    def network(self, name: str) -> Network:
        return next(network for network in self.networks if network.name == name)

    def groups_of(self, node: Node) -> list[Group]:
        """The groups whose channels a node takes part in: its own, and as client manager all of them."""
        return [group for group in self.groups if node.is_client_manager or node.name in group.members]

    def group_settings(self, group: Group) -> GroupSettings:
        profile = PROFILES[group.profile]
        return GroupSettings(
            self.numbers(group.members),
            self.numbers(group.voters),
            lease_seconds=profile.lease_seconds,
            heartbeat_seconds=profile.lease_seconds / 4,
            eject_seconds=profile.eject_seconds,
        )

    def foundation(self) -> str:
        """A digest of what must never change once there is data: other voters would be other majorities, and names in
        other slots would not be found.
        """
        table = self.slot_table()
        groups = [
            (group.number, self.numbers(group.members), sorted(self.numbers(group.witnesses)))
            for group in sorted(self.groups, key=lambda group: group.number)
        ]
        text = json.dumps([groups, [table[slot] for slot in range(SLOTS)]])
        return hashlib.sha256(text.encode()).hexdigest()[:CLUSTER_ID_CHARACTERS]

    def slot_table(self) -> SlotTable:
        """Which group keeps the names of each slot."""
        if not any(group.slots for group in self.groups):
            return SlotTable.round_robin([group.number for group in self.groups])
        table = [0] * SLOTS
        for group in self.groups:
            for first, last in group.slots:
                table[first : last + 1] = [group.number] * (last - first + 1)
        return SlotTable(table)


def _check_counts(config: ClusterConfig) -> None:
    for what, found, most in (
        ("nodes", len(config.nodes), BUS_MEMBERS_MAX),
        ("groups", len(config.groups), BUS_CHANNELS_MAX),
        ("networks", len(config.networks), CLUSTER_NETWORKS_MAX),
    ):
        if not 1 <= found <= most:
            raise ConfigError(f"A cluster has 1 to {most} {what}; this one has {found}.")
    if not config.client_managers:
        raise ConfigError('The cluster has no client manager: give at least one node the role "cm".')


def _check_unique(config: ClusterConfig) -> None:
    for what, values in (
        ("Two networks are called", [network.name for network in config.networks]),
        ("Two nodes are called", [node.name for node in config.nodes]),
        ("Two groups are called", [group.name for group in config.groups]),
        ("Two nodes have the number", [str(node.number) for node in config.nodes]),
        ("Two groups have the number", [str(group.number) for group in config.groups]),
    ):
        twice = _repeated(values)
        if twice is not None:
            raise ConfigError(f"{what} {twice}; each must be unique in the cluster.")


def _check_group(config: ClusterConfig, group: Group) -> None:
    where = f"The group {group.name}"
    members = [config.node(name) for name in group.members]
    for name in group.witnesses:
        if name in group.members or not config.node(name).is_client_manager:
            raise ConfigError(f"{where} names {name} as a witness; a witness is a client manager outside the group.")
    for node in members:
        if not node.is_message_manager:
            raise ConfigError(f'{where} has the member {node.name}, which lacks the role "mm".')
    twice = _repeated(group.voters)
    if twice is not None:
        raise ConfigError(f"{where} names {twice} twice.")
    if not 1 <= len(members) <= GROUP_MEMBERS_MAX:
        raise ConfigError(f"{where} has {len(members)} members; 1 to {GROUP_MEMBERS_MAX} are possible.")
    _check_voters(where, group)
    if not 1 <= group.copies <= len(members):
        raise ConfigError(f"{where} wants {group.copies} copies of each message, and has {len(members)} members.")
    if not group.channels or _repeated(group.networks) is not None:
        raise ConfigError(f"{where} needs one channel on each of its networks.")
    for channel in group.channels:
        _check_channel(config, where, members, channel)


def _check_voters(where: str, group: Group) -> None:
    voters = len(group.voters)
    if voters > GROUP_VOTERS_MAX:
        raise ConfigError(f"{where} has {voters} voters; at most {GROUP_VOTERS_MAX} are possible.")
    if voters % 2 == 0:
        raise ConfigError(
            f"{where} has {voters} voters ({len(group.members)} members and {len(group.witnesses)} witnesses). With an"
            " even number half of them could face the other half, and neither would be a majority: add or remove"
            " a witness."
        )


def _check_channel(config: ClusterConfig, where: str, members: Iterable[Node], channel: Channel) -> None:
    if channel.network not in {network.name for network in config.networks}:
        raise ConfigError(f"{where} has a channel on the network {channel.network!r}, which the cluster does not have.")
    for node in members:
        if channel.network not in node.addresses:
            raise ConfigError(
                f"{where} is on the network {channel.network}, where its member {node.name} has no address."
            )
    if not config.network(channel.network).multicast:
        return
    for address in (channel.address_in, channel.address_out):
        if not IPv4Address(address).is_multicast:
            raise ConfigError(f"{where} has the address {address}, which is no multicast address (224.0.0.0/4).")


def _check_node(config: ClusterConfig, node: Node) -> None:
    where = f"The node {node.name}"
    for network in node.addresses:
        if network not in {each.name for each in config.networks}:
            raise ConfigError(f"{where} has an address on the network {network!r}, which the cluster does not have.")
    if node.is_client_manager and node.client is None:
        raise ConfigError(f"{where} is a client manager and needs `client`: where clients reach it, as host:port.")
    highest = max(group.number for group in config.groups)
    if node.bus_port + highest > 65_535:
        raise ConfigError(f"{where} has the bus port {node.bus_port}; with group {highest} that exceeds 65535.")
    if node.is_client_manager:
        for group in config.groups:
            if not set(group.networks) & set(node.addresses):
                raise ConfigError(
                    f"{where} is on no network of the group {group.name}, so its clients can't reach that."
                )
    elif not any(node.name in group.members for group in config.groups):
        raise ConfigError(f"{where} is a message manager of no group; add it to one or take it out.")


def _check_places(config: ClusterConfig) -> None:
    """No two sockets may want one place, and no two channels may hear each other."""
    own = [
        node.place(group.number, channel.network)
        for node in config.nodes
        for group in config.groups_of(node)
        for channel in group.channels
        if channel.network in node.addresses
    ]
    shared = [
        (channel.network, address, channel.port)
        for group in config.groups
        for channel in group.channels
        if config.network(channel.network).multicast
        for address in (channel.address_in, channel.address_out)
    ]
    for what, places in (
        ("Two nodes use the bus address", [f"{host}:{port}" for host, port in own]),
        ("Two channels use the multicast address", [f"{host}:{port} on {network}" for network, host, port in shared]),
        ("Two nodes have the client address", [node.client for node in config.nodes if node.client is not None]),
    ):
        twice = _repeated(places)
        if twice is not None:
            raise ConfigError(f"{what} {twice}; change the port or the address of one.")


def _check_encryption(config: ClusterConfig) -> None:
    """As clients need TLS where other machines can reach a server."""
    if config.encryption:
        return
    for node in config.nodes:
        for network, address in node.addresses.items():
            if not IPv4Address(address).is_loopback:
                raise ConfigError(
                    f"The cluster refuses `encryption = false` where other machines can reach it: {node.name} has the"
                    f" address {address} on the network {network}. Take the line out of [cluster], or give all nodes"
                    " loopback addresses."
                )


def _check_slots(config: ClusterConfig) -> None:
    """Either nobody names slots, or each slot has exactly one group."""
    owners = Counter(slot for group in config.groups for first, last in group.slots for slot in range(first, last + 1))
    if not owners:
        return
    wrong = next((slot for slot in range(SLOTS) if owners[slot] != 1), None)
    if wrong is not None:
        raise ConfigError(
            f"The slot {wrong} of names belongs to {owners[wrong]} groups. Each slot from 0 to {SLOTS - 1} must belong"
            " to one; or leave all `slots` away, and they go round the groups."
        )


def _repeated(values: Iterable[str]) -> str | None:
    return next((value for value, count in Counter(values).items() if count > 1), None)
