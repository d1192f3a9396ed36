"""Where a connection comes from.

An IPv4 address is one place; of IPv6 the first 64 bits are, since one host has all the others.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

_NETWORK_BITS = 64


def place_of(peer: str) -> str:
    """Where a connection comes from, of its `address:port`: what its bounds are counted by."""
    host = peer.rpartition(":")[0] or peer
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host  # A local socket, or a transport that does not know.
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> _NETWORK_BITS << _NETWORK_BITS)}/{_NETWORK_BITS}"
