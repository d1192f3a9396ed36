from __future__ import annotations

import pytest

from tocsin.model.peer_place import place_of


@pytest.mark.parametrize(
    ("peer", "place"),
    [
        ("10.0.0.7:4711", "10.0.0.7"),
        ("::ffff:10.0.0.7:4711", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6:4711", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9:4711", "2001:db8:1:2::/64"),
        ("fe80::1%eth0:4711", "fe80::/64"),
        ("this host", "this host"),
        ("unknown", "unknown"),
    ],
)
def test_a_place_is_an_address_without_its_port_or_a_network_of_ipv6(peer: str, place: str) -> None:
    assert place_of(peer) == place
