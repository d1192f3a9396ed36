"""Recordings, played to receivers that were started after they were made: nothing of them counts for anything."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tocsin.bus.datagram import HEADER_BYTES
from tocsin.bus.incoming import InFlow
from tocsin.bus.machine import Bus, Delivered, MemberState, Way, group_in, group_out, to_node
from tocsin.runtime.aead import AesGcm
from tocsin.runtime.datagrams import Address
from tocsin.testing.bus_cluster import BusCluster, BusNode, Joined, member_of_group

SECRET = b"the secret of the cluster, 32 B."
IN, OUT = group_in(1), group_out(1)
SENDER, RECEIVER = 2, 3
EVERYWHERE = Joined(1, (Way.IN, Way.OUT), (Way.IN, Way.OUT))


def sealed_cluster() -> tuple[BusCluster, BusNode, list[tuple[Address, bytes]]]:
    """A sender and a receiver that have met and spoken, and a recording of all that the sender has said."""
    cluster = BusCluster(secret=SECRET, suite=AesGcm())
    sender, receiver = cluster.start(SENDER, member_of_group()), cluster.start(RECEIVER, EVERYWHERE)
    heard = cluster.network.sent = []
    assert cluster.run(5.0, lambda: sender.state_of(RECEIVER) is receiver.state_of(SENDER) is MemberState.UP)
    for _ in range(3):
        for address in (IN, OUT, to_node(1, RECEIVER)):
            sender.send(address)
        cluster.run(0.2)
    assert receiver.received_from(sender, OUT) == receiver.received_from(sender, to_node(1, RECEIVER)) == [1, 2, 3]
    cluster.network.sent = None
    return cluster, sender, [(address, datagram) for address, datagram in heard if datagram[6] == SENDER]


def play(cluster: BusCluster, to: BusNode, recording: Sequence[tuple[Address, bytes]], *addresses: Address) -> None:
    for address, datagram in recording:
        if address in addresses:
            to.bus.received(1, datagram, len(datagram), cluster.now)
    to.take_events()


def delivered(node: BusNode, *addresses: Address) -> list[bytes]:
    return [
        bytes(event.payload) for event in node.events if isinstance(event, Delivered) and event.address in addresses
    ]


def deaf_to_out(cluster: BusCluster, node: BusNode) -> None:
    """What is really sent to *out* does not reach it any more, as if it always came a moment later."""
    cluster.network.attach(node.node, 1, (Way.IN,), cluster._receiver(node.bus))


def one_flow_does_not_vouch_for_another() -> None:
    cluster, sender, recording = sealed_cluster()
    cluster.kill(RECEIVER)
    again = cluster.start(RECEIVER, EVERYWHERE, boot=2)
    deaf_to_out(cluster, again)
    assert cluster.run(5.0, lambda: again.state_of(SENDER) is MemberState.UP)
    play(cluster, again, recording, OUT)
    assert delivered(again, OUT) == []
    cluster.network.attach(RECEIVER, 1, (Way.IN, Way.OUT), cluster._receiver(again.bus))
    cluster.run(0.5)
    sender.send(OUT)
    cluster.run(0.5)
    assert again.received_from(sender, OUT) == [4] and not again.losses_from(sender, OUT)


def test_a_recording_of_one_flow_is_not_believed_because_the_sender_is_heard_on_another() -> None:
    one_flow_does_not_vouch_for_another()


def test_that_test_notices_when_flows_are_not_asked_for_their_own_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    class Trusting(InFlow):
        fresh = property(lambda self: True, lambda self, value: None)

    monkeypatch.setattr("tocsin.bus.receiving.InFlow", Trusting)
    with pytest.raises(AssertionError):
        one_flow_does_not_vouch_for_another()


@pytest.mark.parametrize("address", [IN, OUT, to_node(1, RECEIVER)], ids=["in", "out", "node"])
def test_a_copy_of_the_receiver_that_counts_its_starts_alike_takes_no_recording(address: Address) -> None:
    cluster, _, recording = sealed_cluster()
    cluster.kill(RECEIVER)
    cluster.kill(SENDER)
    copy = cluster.start(RECEIVER, EVERYWHERE, boot=1)
    play(cluster, copy, recording, address)
    cluster.run(0.5)
    assert delivered(copy, IN, OUT, to_node(1, RECEIVER)) == []
    assert copy.state_of(SENDER) is None


def test_two_copies_of_one_node_never_seal_with_one_key_and_one_nonce() -> None:
    """Both count their starts alike, and say different things."""
    said = []
    for seed, message in ((1, b"attack at dawn"), (2, b"defend at dusk")):
        bus = Bus(SENDER, 7, Random(seed).random, secret=SECRET, suite=AesGcm())
        bus.join(1, listens=(Way.IN,), speaks=(Way.IN, Way.OUT), datagram_bytes=1_400)
        assert bus.send(IN, (message,))
        bus.tick(1.0)
        said.append([b"".join(parts) for burst in bus.take_bursts(1.0) for parts in burst.datagrams])
    heads = [{datagram[:HEADER_BYTES] for datagram in each} for each in said]
    assert all(heads) and not heads[0] & heads[1], "key and nonce follow from these bytes and the secret"


def test_a_recording_of_a_later_start_neither_ends_a_member_nor_keeps_it_out() -> None:
    """A node that was restored from an older copy counts again what it has counted before."""
    cluster, _, recording = sealed_cluster()
    cluster.kill(SENDER)
    cluster.kill(RECEIVER)
    again = cluster.start(RECEIVER, EVERYWHERE, boot=2)
    # All that was recorded is of start 1, which is later than the one that is played here.
    original = cluster.start(SENDER, member_of_group(), boot=1)
    play(cluster, again, recording, IN, OUT)
    assert cluster.run(5.0, lambda: again.state_of(SENDER) is MemberState.UP)
    play(cluster, again, recording, IN, OUT)
    original.send(IN)
    cluster.run(0.5)
    assert again.received_from(original, IN) == [1]
    assert [change.state for change in again.changes] == [MemberState.UP]


def test_recordings_do_not_keep_alive_who_is_gone() -> None:
    cluster, _, recording = sealed_cluster()
    cluster.kill(RECEIVER)
    again = cluster.start(RECEIVER, EVERYWHERE, boot=2)
    deaf_to_out(cluster, again)
    assert cluster.run(5.0, lambda: again.state_of(SENDER) is MemberState.UP)
    cluster.kill(SENDER)
    for each in [each for each in recording if each[0] == OUT]:
        cluster.run(0.1)
        play(cluster, again, [each], OUT)
    states = [change.state for change in again.changes]
    assert states == [MemberState.UP, MemberState.SUSPECTED, MemberState.DOWN]
