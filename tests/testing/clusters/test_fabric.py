"""The bus of simulated clusters keeps what the real one promises, whatever happens to it; and so does the real one."""

from __future__ import annotations

import pytest

from tocsin.bus.datagram import Stream
from tocsin.bus.events import Delivered, Event, LostSync, RoomAgain
from tocsin.bus.membership import MemberChanged, MemberState
from tocsin.runtime.datagrams import Way, group_in, to_node
from tocsin.testing.clusters.datagram_fabric import DatagramFabric
from tocsin.testing.clusters.fabric import BusEnd, Fabric
from tocsin.testing.clusters.timeline import Being, Timeline


class Node(Being):
    """Says numbers to the group, and hears those of others."""

    def __init__(self, timeline: Timeline, fabric: Fabric | DatagramFabric, number: int) -> None:
        super().__init__(timeline)
        self._fabric, self.number = fabric, number
        self.boot = 0
        self.said = 0

    def start(self) -> None:
        self.begin_life()
        self.boot += 1
        self.said = 0
        self.heard: list[int | str] = []
        self.end = self._fabric.new_end(self, self.number, self.boot, self._take)
        self.end.join(1, listens={Way.IN}, speaks={Way.IN, Way.OUT}, datagram_bytes=1_400)
        self._fabric.attach(self.end)  # type: ignore[arg-type]

    def stop(self) -> None:
        self.end_life()
        self._fabric.detach(self.number)

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Delivered):
                self.heard.append(int.from_bytes(event.payload, "big"))
            elif isinstance(event, LostSync):
                self.heard.append("lost")
            elif isinstance(event, MemberChanged) and event.state is not MemberState.SUSPECTED:
                self.heard.append(event.state.value)

    def say(self, count: int) -> None:
        for _ in range(count):
            self.said += 1
            self.end.send(group_in(1), [self.said.to_bytes(4, "big")])


class Stage:
    def __init__(self, kind: type[Fabric] | type[DatagramFabric]) -> None:
        self.timeline = Timeline("fabric")
        self.fabric = kind(self.timeline)
        self.one, self.other = Node(self.timeline, self.fabric, 1), Node(self.timeline, self.fabric, 2)
        self.one.start()
        self.other.start()
        self.run(2.0)
        assert self.other.heard == ["up"]
        self.other.heard.clear()

    def run(self, seconds: float) -> None:
        self.timeline.run_until(self.timeline.time + seconds)


@pytest.fixture(params=[Fabric, DatagramFabric], ids=["messages", "datagrams"])
def stage(request: pytest.FixtureRequest) -> Stage:
    return Stage(request.param)


def test_messages_come_in_order_over_a_bad_network(stage: Stage) -> None:
    stage.fabric.loss = 0.1
    for _ in range(20):
        stage.one.say(5)
        stage.run(0.05)
    stage.run(3.0)
    assert stage.other.heard == list(range(1, 101))


def test_a_short_cut_costs_nothing_but_time(stage: Stage) -> None:
    stage.fabric.part([1], [2])
    stage.one.say(3)
    stage.run(0.2)
    assert not stage.other.heard
    stage.fabric.mend()
    stage.run(2.0)
    assert stage.other.heard == [1, 2, 3]


def test_a_long_cut_is_noticed_and_what_is_missing_is_named(stage: Stage) -> None:
    stage.fabric.cut([1], [2])
    stage.one.say(2)
    stage.run(5.0)
    assert stage.other.heard == ["down"]
    assert not stage.one.end.send(to_node(1, 2), [b"alone"])
    stage.fabric.mend()
    stage.run(3.0)
    stage.one.say(1)
    stage.run(1.0)
    heard = [each for each in stage.other.heard if each not in ("up", "down")]
    assert heard in ([1, 2, 3], ["lost", 3])


def test_nothing_of_an_earlier_life_comes_after_a_later_one(stage: Stage) -> None:
    stage.one.say(2)
    stage.one.stop()
    stage.one.start()
    stage.run(3.0)
    stage.one.say(1)
    stage.run(1.0)
    assert stage.other.heard[-1] == 1
    assert stage.other.heard[-3:-1] == ["down", "up"]


def test_a_sender_without_room_is_told_when_there_is_room_again() -> None:
    stage = Stage(Fabric)
    said: list[Event] = []
    end = stage.one.end
    assert isinstance(stage.fabric, Fabric) and isinstance(end, BusEnd)
    end.deliver = said.extend
    stage.fabric.fill(end, to_node(1, 2), 0.5)
    assert not end.send(to_node(1, 2), [b"data"]) and end.send(group_in(1), [b"data"])
    assert end.send(to_node(1, 2), [b"urgent"], Stream.CONTROL)
    stage.run(0.4)
    assert not said
    stage.run(0.2)
    assert said == [RoomAgain(to_node(1, 2), Stream.DATA)] and end.send(to_node(1, 2), [b"data"])
