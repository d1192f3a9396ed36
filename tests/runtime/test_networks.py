"""Several networks as one transport: each address over its ways, and a burst that found no room goes on later."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.runtime.datagrams import NOWHERE, Burst, Place, Received, group_in, group_out
from tocsin.runtime.networks import NetworksTransport


class Wire:
    def __init__(self, room: int = 99) -> None:
        self.sent: list[Burst] = []
        self.room = room
        self.closed = False

    def start(self, received: Received, writable: Callable[[], None]) -> None:
        self.received = received

    def send(self, burst: Burst) -> bool:
        if not self.room:
            return False
        self.room -= 1
        self.sent.append(burst)
        return True

    def close(self) -> None:
        self.closed = True


OUT = Burst(group_out(1), [[b"news"]], 4)
IN = Burst(group_in(1), [[b"work"]], 4)


def two_networks() -> tuple[NetworksTransport, Wire, Wire]:
    both, east, west = NetworksTransport(), Wire(), Wire()
    numbers = both.add(east), both.add(west)
    both.route(group_in(1), numbers[0])
    both.route(group_out(1), *numbers)
    return both, east, west


def test_each_address_takes_its_ways() -> None:
    both, east, west = two_networks()
    assert both.send(OUT) and both.send(IN)
    assert (east.sent, west.sent) == ([OUT, IN], [OUT])
    assert both.send(Burst(group_in(2), [[b"lost"]], 4))
    assert len(east.sent) == 2


def test_nobody_gets_a_burst_twice_that_waited_for_room() -> None:
    both, east, west = two_networks()
    west.room = 0
    assert not both.send(OUT)
    assert not both.send(OUT)
    west.room = 1
    assert both.send(OUT)
    assert (east.sent, west.sent) == ([OUT], [OUT])


def test_what_comes_over_any_of_them_is_heard() -> None:
    both, east, west = two_networks()
    heard: list[tuple[int, bytes, int, Place]] = []
    both.start(lambda *received: heard.append(received), lambda: None)
    east.received(1, b"a", 1, NOWHERE)
    west.received(2, b"b", 1, NOWHERE)
    assert heard == [(1, b"a", 1, NOWHERE), (2, b"b", 1, NOWHERE)]
    both.close()
    assert east.closed and west.closed
