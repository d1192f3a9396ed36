"""What is lost is lost datagram by datagram, by chance, and reproducibly."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tocsin.runtime.datagrams import NOWHERE, Burst, Received, group_in
from tocsin.runtime.lossy import LossyTransport


class Wire:
    """A transport whose arrivals a test makes."""

    def __init__(self) -> None:
        self.arrive: Received = lambda channel, data, segment, source: None
        self.sent: list[Burst] = []
        self.closed = False

    def start(self, received: Received, writable: Callable[[], None]) -> None:
        self.arrive = received

    def send(self, burst: Burst) -> bool:
        self.sent.append(burst)
        return True

    def close(self) -> None:
        self.closed = True


def received_of(loss: float, seed: int) -> list[bytes]:
    wire, received = Wire(), list[bytes]()
    lossy = LossyTransport(wire, loss, Random(seed))
    lossy.start(lambda channel, data, segment, source: received.append(data), lambda: None)
    for first in range(0, 1_000, 10):
        # Ten datagrams in one piece, the last of them shorter.
        wire.arrive(1, b"".join(b"%04d" % number for number in range(first, first + 9)) + b"end", 4, NOWHERE)
    return received


def test_a_share_of_the_datagrams_is_lost_each_by_its_own_chance() -> None:
    received = received_of(0.2, seed=1)
    assert 700 < len(received) < 900
    assert {len(each) for each in received} == {3, 4}
    whole = {b"%04d" % number for number in range(1_000)} | {b"end"}
    assert set(received) <= whole


def test_the_same_seed_loses_the_same() -> None:
    assert received_of(0.2, seed=7) == received_of(0.2, seed=7) != received_of(0.2, seed=8)


def test_nothing_is_lost_without_loss() -> None:
    assert len(received_of(0.0, seed=1)) == 1_000


def test_what_is_sent_goes_out_whole() -> None:
    wire = Wire()
    lossy = LossyTransport(wire, 0.5, Random(1))
    burst = Burst(group_in(1), ((b"one",),), 3)
    assert all(lossy.send(burst) for _ in range(10)) and len(wire.sent) == 10
    lossy.close()
    assert wire.closed
