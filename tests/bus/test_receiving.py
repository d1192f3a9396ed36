"""Datagrams that nobody should believe: counted, dropped, and without effect."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.bus import membership
from tocsin.bus.datagram import HEADER_BYTES, INNER, PREFIX_BYTES, Flow, Kind, prefix_of
from tocsin.bus.machine import Counters, Delivered, MemberState, Stream, group_in, to_node
from tocsin.bus.reports import Status, write_status
from tocsin.bus.sealing import Keys, Sealer
from tocsin.model.limits import BUS_STRANGERS_PER_SECOND
from tocsin.runtime.aead import AesGcm
from tocsin.runtime.datagrams import Address
from tocsin.testing.bus_cluster import (
    BusCluster,
    BusNode,
    manager_of_clients,
    member_of_group,
    numbered_message,
)

SECRET = b"the secret of the cluster, 32 B."
OTHER_SECRET = b"the secret of another one, 32 B."
SALT = 0x5A17
IN = group_in(1)


def pair() -> tuple[BusCluster, BusNode, BusNode]:
    """A manager of clients and a member of a group, and a recording of everything they send."""
    cluster = BusCluster(secret=SECRET, suite=AesGcm())
    manager, member = cluster.start(1, manager_of_clients()), cluster.start(2, member_of_group())
    cluster.network.sent = []
    cluster.run(1.0)
    assert manager.state_of(2) is member.state_of(1) is MemberState.UP
    return cluster, manager, member


def recorded(cluster: BusCluster, *addresses: Address) -> list[bytes]:
    assert cluster.network.sent is not None
    return [datagram for address, datagram in cluster.network.sent if not addresses or address in addresses]


def inject(cluster: BusCluster, receiver: BusNode, *datagrams: bytes) -> Counters:
    """Counters of what these datagrams alone have changed."""
    before, counters = _values(receiver.bus.counters), receiver.bus.counters
    for datagram in datagrams:
        receiver.bus.received(1, datagram, max(1, len(datagram)), cluster.now)
    return Counters(*(now - then for now, then in zip(_values(counters), before, strict=True)))


def _values(counters: Counters) -> list[int]:
    return [getattr(counters, name) for name in Counters.__slots__]


def forge(flow: Flow, secret: bytes, *contents: bytes) -> list[bytes]:
    """Datagrams of whoever has that secret."""
    sealer = Sealer(Keys(secret, AesGcm()), prefix_of(flow))
    return [b"".join(parts) for parts in sealer.seal([[content] for content in contents])]


def inner(kind: int, content: bytes = b"", *, stream: int = 0, salt: int = 0, sequence: int = 0) -> bytes:
    return INNER.pack(kind, stream, 0, salt, sequence) + content


def test_the_wire_shows_nothing_of_what_is_said() -> None:
    cluster, manager, _ = pair()
    message = numbered_message(1, 400)
    manager.bus.send(IN, (message,))
    cluster.run(0.1)
    assert max(map(len, recorded(cluster))) > 400
    assert not any(message[:32] in datagram for datagram in recorded(cluster))


def test_a_recording_is_refused() -> None:
    cluster, manager, member = pair()
    manager.send(IN)
    cluster.run(0.5)
    heard = recorded(cluster, IN, to_node(1, 2))
    counters = inject(cluster, member, *[datagram for datagram in heard if datagram[6] == 1])
    assert counters.replayed == counters.datagrams_in > 5
    assert member.received_from(manager, IN) == [1]


def test_a_recording_does_not_convince_a_later_incarnation() -> None:
    """All of a dead node's multicast, played to a node that has never heard it: it never becomes a member."""
    cluster, manager, _ = pair()
    manager.send(IN)
    cluster.run(0.5)
    recording = [datagram for datagram in recorded(cluster, IN, to_node(1, 2)) if datagram[6] == 1]
    cluster.kill(1)
    cluster.kill(2)
    again = cluster.start(2, member_of_group(), boot=2)
    counters = inject(cluster, again, *recording)
    cluster.run(0.5)
    assert counters.early > 0 and counters.stale > 0 and counters.replayed == 0
    assert again.state_of(1) is None
    assert not any(isinstance(event, Delivered) for event in again.events)


def test_earlier_incarnations_are_refused() -> None:
    cluster, manager, member = pair()
    manager.send(IN)
    cluster.run(0.2)
    recording = [datagram for datagram in recorded(cluster, IN) if datagram[6] == 1]
    cluster.kill(1)
    cluster.start(1, manager_of_clients(), boot=2)
    cluster.run(1.0)
    assert inject(cluster, member, *recording).stale == len(recording)
    assert [change.boot for change in member.changes if change.state is MemberState.UP] == [1, 2]


def test_another_cluster_is_refused() -> None:
    cluster, manager, member = pair()
    for boot, salt in ((1, manager.bus.salt), (2, SALT)):
        # The last of many has a counter that was not used yet.
        *_, forged = forge(Flow(1, IN, 1, boot, salt), OTHER_SECRET, *[inner(Kind.DATA, stream=2, sequence=1)] * 500)
        assert inject(cluster, member, forged).forged == 1
    cluster.run(1.0)
    assert [change.state for change in member.changes if change.node == 1] == [MemberState.UP]


def test_any_changed_or_missing_byte_is_refused() -> None:
    cluster, manager, member = pair()
    datagram = forge(Flow(1, IN, 1, 1, manager.bus.salt), SECRET, *[inner(Kind.STATUS)] * 500)[-1]
    for at in range(len(datagram)):
        changed = bytearray(datagram)
        changed[at] ^= 0x10
        counters = inject(cluster, member, bytes(changed))
        dropped = counters.forged + counters.foreign + counters.own + counters.replayed + counters.stale
        assert dropped + counters.crowded_out == 1, at
        cluster.now += 0.01
    for length in range(1, len(datagram)):
        counters = inject(cluster, member, datagram[:length])
        assert counters.foreign if length < HEADER_BYTES else counters.forged, length
    assert member.bus.counters.malformed == 0, "nothing unauthenticated was parsed"


def test_plain_datagrams_are_refused_where_sealed_ones_are_due() -> None:
    cluster, _, member = pair()
    prefix = prefix_of(Flow(0, IN, 1, 1, SALT))
    (parts,) = Sealer(Keys(None, None), prefix).seal([[inner(Kind.STATUS)]])
    assert inject(cluster, member, b"".join(parts)).foreign == 1


@pytest.mark.parametrize(
    "flow",
    [Flow(1, group_in(2), 1, 1, 5), Flow(1, Address(IN.way.OUT, 1), 1, 1, 5), Flow(1, to_node(1, 3), 1, 1, 5)],
    ids=["channel", "way", "node"],
)
def test_what_is_for_others_is_refused(flow: Flow) -> None:
    cluster, _, member = pair()
    assert inject(cluster, member, *forge(flow, SECRET, inner(Kind.STATUS))).foreign == 1


def test_our_own_datagrams_are_not_ours_to_hear() -> None:
    cluster, _, member = pair()
    own = [datagram for datagram in recorded(cluster, IN) if datagram[6] == 2]
    assert inject(cluster, member, *own).own == len(own) > 0


def test_authentic_nonsense_is_counted_and_has_no_effect() -> None:
    cluster, _, member = pair()
    cluster.run(0.2)
    contents = [b"", inner(Kind.STATUS, b"xyz"), inner(99), inner(Kind.REQUEST), inner(Kind.ACKNOWLEDGEMENT, bytes(16))]
    fresh = forge(Flow(1, IN, 7, 1, SALT), SECRET, *contents)
    counters = inject(cluster, member, *fresh)
    assert counters.malformed == len(contents)
    cluster.run(0.2)
    assert member.state_of(7) is None


def test_data_of_unknown_streams_is_early() -> None:
    cluster, _, member = pair()
    forged = forge(
        Flow(1, IN, 7, 1, SALT), SECRET, inner(Kind.DATA, stream=Stream.DATA, sequence=5), inner(Kind.DATA, stream=9)
    )
    assert inject(cluster, member, *forged).early == 2


def test_a_node_with_the_secret_that_breaks_the_chunks_is_told_of_as_a_loss() -> None:
    cluster, _, member = pair()
    bad = inner(Kind.DATA, b"\x01", stream=Stream.DATA, salt=member.bus.salt, sequence=1)
    inject(cluster, member, *forge(Flow(1, to_node(1, 2), 7, 1, SALT), SECRET, bad))
    member.take_events()
    assert member.bus.counters.malformed == 1
    assert member.checker.losses == {(7, 1, to_node(1, 2), Stream.DATA): 1}


def test_strangers_are_looked_at_within_a_rate_and_members_go_on() -> None:
    cluster, manager, member = pair()
    flood = [forge(Flow(1, IN, 9, boot, SALT), OTHER_SECRET, inner(Kind.STATUS))[0] for boot in range(1, 2_001)]
    counters = inject(cluster, member, *flood)
    assert counters.forged <= BUS_STRANGERS_PER_SECOND
    assert counters.forged + counters.crowded_out == 2_000
    manager.send(IN)
    cluster.run(0.2)
    assert member.received_from(manager, IN) == [1]


def test_members_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "BUS_MEMBERS_MAX", 3)
    cluster, _, member = pair()
    status = inner(Kind.STATUS, write_status(Status(False, [], [member.bus.salt])))
    for node in range(10, 20):
        inject(cluster, member, *forge(Flow(1, IN, node, 1, SALT + node), SECRET, status))
    cluster.run(0.1)
    assert member.bus.counters.stale == 8


@settings(max_examples=300)
@given(st.binary(max_size=200), st.integers(1, 250))
def test_garbage_never_crashes(data: bytes, segment: int) -> None:
    node = BusCluster(secret=SECRET, suite=AesGcm()).start(2, member_of_group())
    node.bus.received(1, data, segment, 1.0)
    assert node.bus.take_events() == []


def test_coalesced_datagrams_that_are_too_short_are_dropped_one_by_one() -> None:
    """As a kernel hands them over that were sent in one call; the prefix is there for everybody to see."""
    cluster, manager, member = pair()
    prefix = next(datagram[:PREFIX_BYTES] for datagram in recorded(cluster, IN) if datagram[6] == 1)
    manager.send(IN)
    for length in range(1, HEADER_BYTES + 20):
        for count in (1, 2, 3):
            before = member.bus.counters.datagrams_in
            # Of counters that were not seen yet, so that each would be opened.
            short = (prefix + b"\xff" * 20)[:length]
            member.bus.received(1, short * count, length, cluster.now)
            member.bus.received(1, short * count + short[:-1], length, cluster.now)
            assert member.bus.counters.datagrams_in == before + 2 * count + (length > 1), (length, count)
    cluster.run(0.5)
    assert member.state_of(1) is MemberState.UP
    assert member.received_from(manager, IN) == [1]


def test_garbage_behind_a_real_prefix_never_crashes() -> None:
    cluster, _, member = pair()
    random = Random(1)
    prefixes = sorted({datagram[:PREFIX_BYTES] for datagram in recorded(cluster) if datagram[6] == 1})
    garbage = [random.choice(prefixes) + random.randbytes(random.randrange(120)) for _ in range(2_000)]
    counters = inject(cluster, member, *garbage)
    assert counters.forged + counters.foreign + counters.replayed + counters.crowded_out == 2_000
    coalesced = b"".join(datagram.ljust(100, b"\0") for datagram in garbage)
    member.bus.received(1, coalesced, 100, cluster.now)
    cluster.run(0.5)
    assert member.state_of(1) is MemberState.UP
