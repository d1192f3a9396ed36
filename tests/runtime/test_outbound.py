"""Who is cut off when too much waits to be sent."""

from __future__ import annotations

from tocsin.model.limits import MIB, OUTBOUND_BYTES_MAX
from tocsin.model.traffic_limits import OUTBOUND_ALL_BYTES_MAX
from tocsin.runtime.outbound import Outbound


class Peer:
    def __init__(self, waiting: int = 0) -> None:
        self.waiting = waiting
        self.reason = ""

    def cut_off(self, reason: str) -> None:
        self.reason = reason


def test_one_that_does_not_read_is_cut_off_at_its_own_bound() -> None:
    outbound, peer = Outbound(), Peer(OUTBOUND_BYTES_MAX)
    outbound.wait(1, peer)
    assert outbound.cut_off == 0 and outbound.total == OUTBOUND_BYTES_MAX
    peer.waiting += 1
    outbound.wait(1, peer)
    assert peer.reason == "it does not read, and 64 MiB wait for it."
    assert (outbound.total, outbound.cut_off) == (0, 1)


def test_at_the_common_bound_those_go_for_which_the_most_waits() -> None:
    outbound = Outbound()
    large = [Peer(48 * MIB) for _ in range(OUTBOUND_ALL_BYTES_MAX // (48 * MIB))]
    small = [Peer(MIB) for _ in range(100)]
    for number, peer in enumerate([*small, *large]):
        outbound.wait(number, peer)
    assert outbound.total <= OUTBOUND_ALL_BYTES_MAX
    assert 0 < outbound.cut_off == sum(bool(peer.reason) for peer in large) < len(large)
    assert not any(peer.reason for peer in small), "none of those that wait for little"


def test_what_has_left_meanwhile_is_found_out_before_anybody_is_cut_off() -> None:
    outbound = Outbound()
    peers = [Peer(60 * MIB) for _ in range(8)]
    for number, peer in enumerate(peers):
        outbound.wait(number, peer)
    for peer in peers:
        peer.waiting = 0
    late = Peer(60 * MIB)
    outbound.wait(99, late)
    assert outbound.cut_off == 0 and outbound.total == 60 * MIB
    outbound.gone(99)
    outbound.gone(99)
    assert outbound.total == 0
