"""The network loses, doubles, delays and cuts as it is told, and nothing else."""

from __future__ import annotations

from random import Random

from tocsin.testing.simulation.network import LOCAL_SECONDS, Network


class Wire:
    def __init__(self) -> None:
        self.arrived: list[tuple[float, int, int, object]] = []
        self.network = Network(Random(1), lambda *arrival: self.arrived.append(arrival))

    def count(self, sender: int, receiver: int, messages: int = 200) -> int:
        self.arrived.clear()
        for number in range(messages):
            self.network.send(sender, receiver, number)
        return len(self.arrived)


def test_without_faults_everything_arrives_once() -> None:
    assert Wire().count(1, 2) == 200


def test_loss_and_duplication() -> None:
    wire = Wire()
    wire.network.loss = 0.3
    assert 100 < wire.count(1, 2) < 180
    wire.network.loss, wire.network.duplication = 0.0, 0.5
    assert 250 < wire.count(1, 2) < 350


def test_messages_overtake_each_other() -> None:
    wire = Wire()
    wire.network.spikes = 0.1
    wire.count(1, 2)
    delays = [delay for delay, *_ in wire.arrived]
    assert delays != sorted(delays)
    assert max(delays) > 0.1


def test_a_cut_is_in_one_direction_and_a_partition_in_both() -> None:
    wire = Wire()
    wire.network.cut([1], [2, 3])
    assert (wire.count(1, 2), wire.count(2, 1)) == (0, 200)
    wire.network.mend()
    wire.network.part([1, 2], [3])
    assert (wire.count(1, 2), wire.count(1, 3), wire.count(3, 2)) == (200, 0, 0)
    wire.network.heal()
    assert wire.count(1, 3) == 200


def test_a_clogged_node_is_heard_later_in_any_order() -> None:
    wire = Wire()
    wire.network.clog(1)
    assert wire.count(1, 2) == 0
    wire.network.release(1)
    numbers = [message for *_, message in wire.arrived if isinstance(message, int)]
    assert sorted(numbers) == list(range(200))
    assert numbers != sorted(numbers)


def test_a_node_always_hears_itself() -> None:
    wire = Wire()
    wire.network.loss = 1.0
    wire.network.cut([1], [1, 2])
    assert wire.count(1, 1) == 200
    assert {delay for delay, *_ in wire.arrived} == {LOCAL_SECONDS}
