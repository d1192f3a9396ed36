"""A cluster on one machine: nodes, groups, and addresses that nobody else uses."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator

from tocsin.model.errors import ConfigError
from tocsin.model.limits import BUS_CHANNELS_MAX
from tocsin.node.cluster_config import CLIENT_MANAGER, MESSAGE_MANAGER, Channel, ClusterConfig, Group, Network, Node

HOST = "127.0.0.1"
NETWORK = "loopback"
_LOOPBACK_MTU = 65_536
# Below the range from which the system takes ports for outgoing connections, so none is taken while a node is down.
_PORTS = range(12_000, 32_000)
_TRIES_MAX = 1_000
_PROBE_SECONDS = 0.5


def local_cluster(
    *,
    name: str,
    cluster_id: str,
    secret_fingerprint: str,
    client_managers: int,
    groups: int,
    members: int,
    port: int,
    profile: str,
) -> ClusterConfig:
    """Each group has `members` members; where their number is even, a client manager is its witness.

    Where the machine's loopback interface carries no multicast, each receiver gets its own copy.
    Client managers listen at `port`, and then at every hundredth above; where one is taken, at a free one.
    """
    if groups > BUS_CHANNELS_MAX:
        raise ConfigError(f"A cluster has at most {BUS_CHANNELS_MAX} groups, not {groups}.")
    chance = random.SystemRandom()
    bus_ports, client_ports = _bus_ports(chance, groups), _client_ports(chance, port)
    managers = [
        Node(
            name=f"cm-{number}",
            number=number,
            roles=(CLIENT_MANAGER,),
            addresses={NETWORK: HOST},
            bus_port=next(bus_ports),
            client=f"{HOST}:{next(client_ports)}",
        )
        for number in range(1, client_managers + 1)
    ]
    nodes, grouped = list(managers), []
    place = _multicast_places(chance)
    for group in range(1, groups + 1):
        mine = [
            Node(
                name=_member_name(group, rank, members),
                number=len(nodes) + rank + 1,
                roles=(MESSAGE_MANAGER,),
                addresses={NETWORK: HOST},
                bus_port=next(bus_ports),
            )
            for rank in range(members)
        ]
        nodes += mine
        witness = managers[(group - 1) % client_managers].name
        grouped.append(
            Group(
                name=f"group-{group}",
                number=group,
                members=tuple(node.name for node in mine),
                witnesses=(witness,) if members % 2 == 0 else (),
                channels=(next(place),),
                copies=min(2, members),
                profile=profile,
            )
        )
    return ClusterConfig(
        name=name,
        cluster_id=cluster_id,
        secret_fingerprint=secret_fingerprint,
        encryption=True,
        networks=(Network(name=NETWORK, mtu=_LOOPBACK_MTU, multicast=carries_multicast(HOST)),),
        nodes=tuple(nodes),
        groups=tuple(grouped),
    )


def _member_name(group: int, rank: int, members: int) -> str:
    """mm-1a and mm-1b are the members of group 1; where letters end, numbers go on."""
    return f"mm-{group}{chr(ord('a') + rank)}" if members <= 26 else f"mm-{group}-{rank + 1}"


def _multicast_places(chance: random.Random) -> Iterator[Channel]:
    """From the block for use within an organisation; drawn, so that two clusters rarely even see each other."""
    base, port = f"239.{chance.randint(192, 251)}.{chance.randint(0, 255)}", chance.choice(_PORTS)
    for host in range(1, 254, 2):
        yield Channel(network=NETWORK, address_in=f"{base}.{host}", address_out=f"{base}.{host + 1}", port=port)


def _bus_ports(chance: random.Random, groups: int) -> Iterator[int]:
    """Bases above which a port for each group is free, and no other node of this cluster has it."""
    taken: set[int] = set()
    for _ in range(_TRIES_MAX):
        base = chance.choice(_PORTS)
        wanted = range(base + 1, base + groups + 1)
        if taken.isdisjoint(wanted) and all(_is_free(socket.SOCK_DGRAM, port) for port in wanted):
            taken.update(wanted)
            yield base
    raise ConfigError("This machine has too few free UDP ports for the cluster.")


def _client_ports(chance: random.Random, first: int) -> Iterator[int]:
    taken: set[int] = set()
    wanted = first
    for _ in range(_TRIES_MAX):
        port = wanted if 0 < wanted <= 65_535 and wanted not in taken else chance.choice(_PORTS)
        wanted = wanted + 100 if port == wanted else 0
        if port not in taken and _is_free(socket.SOCK_STREAM, port):
            taken.add(port)
            yield port
    raise ConfigError("This machine has too few free TCP ports for the cluster.")


def carries_multicast(interface: str) -> bool:
    """Whether a datagram to a group is heard on this interface: in some containers it is not."""
    group = "239.255.255.253"
    try:
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
            probe.bind((group, 0))
            membership = socket.inet_aton(group) + socket.inet_aton(interface)
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
            probe.settimeout(_PROBE_SECONDS)
            probe.sendto(b"?", probe.getsockname())
            return probe.recv(1) == b"?"
    except OSError:
        return False


def _is_free(kind: socket.SocketKind, port: int) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
