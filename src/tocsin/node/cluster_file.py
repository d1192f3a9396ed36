"""The cluster file: a ClusterConfig as TOML, read with every line checked, written so that people can edit it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from tocsin.cluster.slots import SLOTS
from tocsin.model.errors import ConfigError
from tocsin.model.limits import CLUSTER_ID_CHARACTERS, GROUP_MEMBERS_MAX
from tocsin.node.cluster_config import PROFILES, ROLES, Channel, ClusterConfig, Group, Network, Node
from tocsin.node.setting_checks import Check, boolean, host_and_port, list_of, name, one_of, whole_number
from tocsin.node.toml_file import read_table, read_toml

_HEX = frozenset("0123456789abcdef")


def _address(value: object) -> str:
    try:
        return str(IPv4Address(value if isinstance(value, str) else ""))
    except ValueError:
        raise ValueError("an IPv4 address") from None


def _hex(characters: int) -> Check:
    def check(value: object) -> str:
        if not isinstance(value, str) or len(value) != characters or not set(value) <= _HEX:
            raise ValueError(f"{characters} hexadecimal digits, as `tocsin cluster init` writes them")
        return value

    return check


def _addresses(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not value:
        raise ValueError('a table of networks and addresses, such as { lan = "10.0.0.1" }')
    return {str(name(network)): _address(address) for network, address in value.items()}


def _slots(value: object) -> tuple[int, int]:
    first, dash, last = value.partition("-") if isinstance(value, str) else ("", "", "")
    last = last if dash else first
    if not first.isdecimal() or not last.isdecimal() or not int(first) <= int(last) < SLOTS:
        raise ValueError(f'a list of runs such as "0-{SLOTS // 2 - 1}", with numbers from 0 to {SLOTS - 1}')
    return int(first), int(last)


_NUMBER = whole_number(1, 65_535)
_PORT = whole_number(1, 65_535)
_CLUSTER: Mapping[str, Check] = {
    "name": name,
    "id": _hex(CLUSTER_ID_CHARACTERS),
    "secret_fingerprint": _hex(CLUSTER_ID_CHARACTERS),
    "encryption": boolean,
}
_NETWORK: Mapping[str, Check] = {
    "name": name,
    "multicast": boolean,
    "mtu": whole_number(1_280, 65_536),
    "hops": whole_number(0, 255),
}
_NODE: Mapping[str, Check] = {
    "name": name,
    "number": _NUMBER,
    "roles": list_of(one_of(*ROLES)),
    "addresses": _addresses,
    "bus_port": _PORT,
    "client": host_and_port,
}
_GROUP: Mapping[str, Check] = {
    "name": name,
    "number": _NUMBER,
    "members": list_of(name),
    "witnesses": list_of(name),
    "copies": whole_number(1, GROUP_MEMBERS_MAX),
    "profile": one_of(*PROFILES),
    "slots": list_of(_slots),
}
_CHANNEL: Mapping[str, Check] = {"network": name, "in": _address, "out": _address, "port": _PORT}
_PARTS = ("cluster", "network", "node", "group")


def read_cluster_file(file: Path, *, given: Mapping[str, str] | None = None) -> ClusterConfig:
    """`given`: the id and the secret's fingerprint for a draft, which has none yet."""
    content = read_toml(file)
    if given is not None:
        _complete(content.get("cluster"), given, file)
    for part in content:
        if part not in _PARTS:
            raise ConfigError(f"The cluster file {file} has a part {part!r}; its parts are {', '.join(_PARTS)}.")
    cluster = read_table(
        content.get("cluster"), _CLUSTER, "[cluster]", file, required=("name", "id", "secret_fingerprint")
    )
    networks = tuple(
        Network(**read_table(table, _NETWORK, "[[network]]", file, required=("name",)))
        for table in _tables(content, "network", file)
    )
    nodes = tuple(_node(table, file) for table in _tables(content, "node", file))
    groups = tuple(_group(table, file) for table in _tables(content, "group", file))
    config = ClusterConfig(
        name=cluster["name"],
        cluster_id=cluster["id"],
        secret_fingerprint=cluster["secret_fingerprint"],
        encryption=cluster.get("encryption", True),
        networks=networks,
        nodes=nodes,
        groups=groups,
    )
    return replace(config, digest=digest_of(config))


def _complete(cluster: object, given: Mapping[str, str], file: Path) -> None:
    if not isinstance(cluster, dict):
        return
    if given.keys() & cluster.keys():
        raise ConfigError(
            f"The file {file} has an id already: it is the file of a cluster, not the draft of a new one."
        )
    cluster.update(given)


def _node(table: object, file: Path) -> Node:
    read = read_table(table, _NODE, "[[node]]", file, required=("name", "number", "roles", "addresses"))
    return Node(**{**read, "roles": tuple(read["roles"])})


def _group(table: object, file: Path) -> Group:
    if not isinstance(table, dict):
        raise ConfigError(f"In {file} [[group]] must be a table.")
    rest = {key: value for key, value in table.items() if key != "channel"}
    read = read_table(rest, _GROUP, "[[group]]", file, required=("number", "members"))
    number, members = read["number"], tuple(read["members"])
    channels = []
    for each in _tables(table, "channel", file):
        channel = read_table(each, _CHANNEL, "[[group.channel]]", file, required=("network", "in", "out", "port"))
        places = {"address_in": channel["in"], "address_out": channel["out"]}
        channels.append(Channel(network=channel["network"], port=channel["port"], **places))
    return Group(
        name=read.get("name", f"group-{number}"),
        number=number,
        members=members,
        witnesses=tuple(read.get("witnesses", ())),
        channels=tuple(channels),
        copies=read.get("copies", min(2, len(members))),
        profile=read.get("profile", "default"),
        slots=read.get("slots", ()),
    )


def _tables(content: Mapping[str, Any], part: str, file: Path) -> list[object]:
    found = content.get(part, [])
    if not isinstance(found, list):
        raise ConfigError(
            f"In {file} the part {part!r} must be written with two brackets, [[...{part}]], once for each."
        )
    return found


def digest_of(config: ClusterConfig) -> str:
    """Of what the file means: comments, order of keys and defaults written out make no difference."""
    return hashlib.sha256(write_cluster(config).encode()).hexdigest()[:CLUSTER_ID_CHARACTERS]


def write_cluster(config: ClusterConfig) -> str:
    """The whole file as text, with every setting; reading it gives the same configuration."""
    lines = [
        "[cluster]",
        f"name = {_toml(config.name)}",
        f"id = {_toml(config.cluster_id)}",
        f"secret_fingerprint = {_toml(config.secret_fingerprint)}",
        f"encryption = {_toml(config.encryption)}",
    ]
    for network in config.networks:
        lines += ["", "[[network]]", f"name = {_toml(network.name)}", f"multicast = {_toml(network.multicast)}"]
        lines += [f"mtu = {network.mtu}", f"hops = {network.hops}"]
    for node in config.nodes:
        lines += ["", "[[node]]", *_node_lines(node)]
    for group in config.groups:
        lines += ["", "[[group]]", *_group_lines(group)]
    return "\n".join(lines) + "\n"


def _node_lines(node: Node) -> list[str]:
    addresses = ", ".join(f"{_toml(network)} = {_toml(address)}" for network, address in sorted(node.addresses.items()))
    lines = [f"name = {_toml(node.name)}", f"number = {node.number}", f"roles = {_toml(node.roles)}"]
    lines += [f"addresses = {{ {addresses} }}", f"bus_port = {node.bus_port}"]
    return lines if node.client is None else [*lines, f"client = {_toml(node.client)}"]


def _group_lines(group: Group) -> list[str]:
    lines = [f"name = {_toml(group.name)}", f"number = {group.number}", f"members = {_toml(group.members)}"]
    lines += [f"witnesses = {_toml(group.witnesses)}", f"copies = {group.copies}", f"profile = {_toml(group.profile)}"]
    if group.slots:
        lines.append(f"slots = {_toml([f'{first}-{last}' for first, last in group.slots])}")
    for channel in group.channels:
        lines += ["", "[[group.channel]]", f"network = {_toml(channel.network)}", f"in = {_toml(channel.address_in)}"]
        lines += [f"out = {_toml(channel.address_out)}", f"port = {channel.port}"]
    return lines


def _toml(value: object) -> str:
    """Texts, truth values and lists of texts are written in TOML as in JSON."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)
