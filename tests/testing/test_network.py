from __future__ import annotations

from tocsin.runtime.datagrams import Address, Burst, Place, Way, group_in, group_out, to_node
from tocsin.testing.network import Conditions, SimulatedNetwork


class Ears:
    """What nodes hear, each datagram by itself."""

    def __init__(self, network: SimulatedNetwork) -> None:
        self.network = network
        self.heard: dict[tuple[int, int], list[bytes]] = {}

    def attach(self, node: int, channel: int, *listens: Way) -> None:
        heard = self.heard[node, channel] = list[bytes]()

        def receive(_channel: int, data: bytes, segment: int, _source: Place) -> None:
            assert _channel == channel
            heard.extend(data[start : start + segment] for start in range(0, len(data), segment))

        self.network.attach(node, channel, listens, receive)


def burst(address: Address, *datagrams: bytes) -> Burst:
    return Burst(address, [(datagram[:1], datagram[1:]) for datagram in datagrams], len(datagrams[0]))


def numbered(count: int) -> list[bytes]:
    return [f"{number:04}".encode() for number in range(count)]


def lan(conditions: Conditions | None = None, seed: int = 1) -> tuple[SimulatedNetwork, Ears]:
    network = SimulatedNetwork(seed, conditions)
    ears = Ears(network)
    ears.attach(1, 7, Way.OUT)
    ears.attach(2, 7, Way.IN)
    ears.attach(3, 7, Way.IN)
    return network, ears


def test_multicast_reaches_those_who_listen_and_a_node_only_itself() -> None:
    network, ears = lan()
    ears.attach(4, 8, Way.IN, Way.OUT)
    network.send(2, burst(group_in(7), b"in"), 0.0)
    network.send(2, burst(group_out(7), b"out"), 0.0)
    network.send(2, burst(to_node(7, 3), b"to 3"), 0.0)
    network.send(2, burst(to_node(7, 9), b"to nobody"), 0.0)
    network.run_until(0.0)
    assert not any(ears.heard.values())
    network.run_until(1.0)
    assert ears.heard == {(1, 7): [b"out"], (2, 7): [], (3, 7): [b"in", b"to 3"], (4, 8): []}


def test_without_faults_everything_comes_once_and_in_order() -> None:
    network, ears = lan()
    for number in numbered(100):
        network.send(1, burst(group_in(7), number), 0.0)
    network.run_until(1.0)
    assert ears.heard[2, 7] == ears.heard[3, 7] == numbered(100)


def test_each_fault_does_what_it_says() -> None:
    for conditions, differs in (
        (Conditions(loss=0.5), "fewer"),
        (Conditions(duplication=0.5), "more"),
        (Conditions(reordering=0.5), "order"),
    ):
        network, ears = lan(conditions)
        network.send(1, burst(group_in(7), *numbered(100)), 0.0)
        network.run_until(1.0)
        heard = ears.heard[2, 7]
        if differs == "order":
            assert heard != numbered(100) and sorted(heard) == numbered(100)
        else:
            assert 25 < abs(len(heard) - 100) < 75
            assert (len(heard) < 100) == (differs == "fewer")
            assert set(heard) <= set(numbered(100))
        assert heard != ears.heard[3, 7], "receivers have their own luck"


def test_cuts_work_in_one_direction_and_take_what_is_under_way() -> None:
    network, ears = lan()
    network.send(1, burst(group_in(7), b"under way"), 0.0)
    network.cut(1, 2)
    network.send(2, burst(to_node(7, 1), b"back"), 0.0)
    network.run_until(1.0)
    assert ears.heard == {(1, 7): [b"back"], (2, 7): [], (3, 7): [b"under way"]}
    network.heal()
    network.partition([1], [2, 3])
    network.send(1, burst(group_in(7), b"lost"), 1.0)
    network.send(2, burst(group_in(7), b"same side"), 1.0)
    network.run_until(2.0)
    assert ears.heard[2, 7] == [] and ears.heard[3, 7] == [b"under way", b"same side"]


def test_one_seed_gives_one_run() -> None:
    conditions = Conditions(loss=0.2, duplication=0.2, reordering=0.2)

    def run(seed: int) -> list[bytes]:
        network, ears = lan(conditions, seed)
        network.send(1, burst(group_in(7), *numbered(100)), 0.0)
        network.run_until(1.0)
        return ears.heard[2, 7]

    assert run(5) == run(5) != run(6)


def test_a_node_that_is_gone_hears_nothing() -> None:
    network, ears = lan()
    network.send(1, burst(group_in(7), b"late"), 0.0)
    network.detach(2)
    network.run_until(1.0)
    assert ears.heard[2, 7] == [] and ears.heard[3, 7] == [b"late"]
