from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tocsin.bus.datagram import PREFIX_BYTES, Flow, prefix_of
from tocsin.bus.machine import Bus, MemberState, Way, group_in
from tocsin.bus.sealing import Aead, Keys
from tocsin.bus.strangers import Strangers
from tocsin.model.limits import BUS_NEWCOMERS_PER_SECOND, BUS_PACKETS_PER_KEY, BUS_STRANGERS_PER_SECOND
from tocsin.runtime.aead import AesGcm
from tocsin.testing.bus_cluster import BusCluster, manager_of_clients, member_of_group
from tocsin.testing.network import place_of

SECRET = b"the secret of the cluster, 32 B."
IN = group_in(1)
PEERS = {1: [place_of(1)], 2: [place_of(2)], 3: [place_of(3)]}
ELSEWHERE = ("198.51.100.7", 4_000)


def test_each_node_has_an_allowance_at_its_own_address() -> None:
    strangers = Strangers(PEERS)
    assert sum(strangers.admits(1, place_of(1), 1.0) for _ in range(1_000)) == BUS_NEWCOMERS_PER_SECOND
    assert strangers.admits(2, place_of(2), 1.0)
    assert strangers.admits(1, place_of(1), 1.1)


def test_who_speaks_from_elsewhere_shares_one_allowance_with_all_of_them() -> None:
    strangers = Strangers(PEERS)
    sources = [("198.51.100.7", port) for port in range(2_000)]
    named = [1 + number % 3 for number in range(2_000)]
    admitted = [strangers.admits(node, source, 1.0) for node, source in zip(named, sources, strict=True)]
    assert sum(admitted) == BUS_STRANGERS_PER_SECOND
    assert not strangers.admits(1, place_of(2), 1.0), "the address of another node is elsewhere, too"
    assert strangers.admits(1, place_of(1), 1.0)


def test_only_nodes_of_the_cluster_are_known() -> None:
    assert Strangers(PEERS).knows(3) and not Strangers(PEERS).knows(4)
    assert Strangers(None).knows(4) and Strangers(None).admits(4, ELSEWHERE, 1.0)


def forgery(random: Random, node: int) -> bytes:
    """Of an incarnation that was never heard, so that it needs a key of its own."""
    flow = Flow(1, IN, node, random.randrange(1, 1 << 32), random.randrange(1, 1 << 64))
    return prefix_of(flow) + random.randbytes(80)


@pytest.mark.parametrize("claimed", [1, 9], ids=["of the newcomer itself", "of no node of the cluster"])
def test_a_newcomer_is_heard_within_a_flood_of_forgeries(claimed: int) -> None:
    """20,000 a second, in the name of the node that starts or of another one."""
    random = Random(1)
    cluster = BusCluster(secret=SECRET, suite=AesGcm(), peers=PEERS)
    member = cluster.start(2, member_of_group())

    def flood(seconds: float) -> None:
        for _ in range(int(seconds * 20_000)):
            datagram = forgery(random, claimed)
            member.bus.received(1, datagram, len(datagram), cluster.now, ELSEWHERE)
            cluster.run(1 / 20_000)

    flood(1.0)
    newcomer = cluster.start(1, manager_of_clients())
    flood(0.1)
    assert member.state_of(1) is newcomer.state_of(2) is MemberState.UP, member.bus.counters
    dropped = member.bus.counters
    assert dropped.forged <= 3 * BUS_STRANGERS_PER_SECOND
    assert dropped.crowded_out + dropped.forged + dropped.unknown + dropped.stale >= 22_000


def test_a_forger_that_uses_the_address_of_the_newcomer_only_delays_it() -> None:
    random = Random(1)
    cluster = BusCluster(secret=SECRET, suite=AesGcm(), peers=PEERS)
    member = cluster.start(2, member_of_group())
    newcomer = cluster.start(1, manager_of_clients())
    for _ in range(5_000):
        datagram = forgery(random, 1)
        member.bus.received(1, datagram, len(datagram), cluster.now, place_of(1))
        cluster.run(1 / 1_000)
        if member.state_of(1) is newcomer.state_of(2) is MemberState.UP:
            return
    raise AssertionError(f"not heard within 5 s: {member.bus.counters}")


def test_unknown_nodes_are_dropped_and_counted() -> None:
    bus = Bus(2, 1, Random(2).random, secret=SECRET, suite=AesGcm())
    bus.join(1, listens=(Way.IN,), speaks=(Way.IN, Way.OUT), datagram_bytes=1_400, peers=PEERS)
    random = Random(1)
    for datagram in [forgery(random, 4) for _ in range(100)]:
        bus.received(1, datagram, len(datagram), 1.0, ELSEWHERE)
    assert (bus.counters.unknown, bus.counters.forged, bus.counters.crowded_out) == (100, 0, 0)


def test_forgeries_under_other_keys_of_a_known_flow_have_the_same_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = BusCluster(secret=SECRET, suite=AesGcm(), peers=PEERS)
    member = cluster.start(2, member_of_group())
    manager = cluster.start(1, manager_of_clients())
    heard = cluster.network.sent = []
    cluster.run(1.0)
    prefix = next(data[:PREFIX_BYTES] for address, data in heard if address == IN and data[6] == 1)
    random, before, derived = Random(1), replace(member.bus.counters), 0
    original = Keys.cipher

    def cipher(self: Keys, prefix: bytes, number: int) -> Aead | None:
        nonlocal derived
        derived += 1
        return original(self, prefix, number)

    monkeypatch.setattr(Keys, "cipher", cipher)
    for number in range(2_000):
        counter = (number % 100 + 1) * BUS_PACKETS_PER_KEY
        datagram = prefix + counter.to_bytes(8, "little") + random.randbytes(60)
        member.bus.received(1, datagram, len(datagram), cluster.now, ELSEWHERE)
    counters = member.bus.counters
    assert derived == counters.forged - before.forged == BUS_STRANGERS_PER_SECOND
    assert counters.crowded_out - before.crowded_out == 2_000 - BUS_STRANGERS_PER_SECOND
    cluster.run(2.0)
    assert member.state_of(1) is manager.state_of(2) is MemberState.UP, "the flow itself goes on"
