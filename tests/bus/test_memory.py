from __future__ import annotations

from typing import Any

import pytest

from tocsin.bus.memory import MemoryBus


class Recorder:
    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def __call__(self, sender: str, content: Any) -> None:
        self.heard.append((sender, content))


def test_each_member_gets_what_was_sent_to_it_in_order() -> None:
    bus, left, right = MemoryBus(), Recorder(), Recorder()
    bus.join("left", left)
    bus.join("right", right)
    for number in range(5):
        bus.send("left", "right", number)
        bus.send("right", "left", -number)
    assert bus.deliver()
    assert right.heard == [("left", number) for number in range(5)]
    assert left.heard == [("right", -number) for number in range(5)]


def test_content_passes_as_it_is() -> None:
    bus, member, content = MemoryBus(), Recorder(), object()
    bus.join("member", member)
    bus.send("somebody", "member", content)
    bus.deliver()
    assert member.heard[0][1] is content


def test_sending_calls_nobody_and_an_empty_bus_says_so() -> None:
    bus, member = MemoryBus(), Recorder()
    bus.join("member", member)
    assert not bus.deliver()
    bus.send("member", "member", "note")
    assert member.heard == []
    assert bus.deliver()
    assert not bus.deliver()


def test_what_is_sent_during_a_delivery_waits_for_the_next_one() -> None:
    bus = MemoryBus()
    heard: list[int] = []

    def answer(_sender: str, number: int) -> None:
        heard.append(number)
        bus.send("member", "member", number + 1)

    bus.join("member", answer)
    bus.send("member", "member", 0)
    for turn in range(3):
        assert bus.deliver()
        assert heard == list(range(turn + 1))


def test_a_member_that_fails_does_not_lose_what_is_behind() -> None:
    bus, heard = MemoryBus(), Recorder()

    def choke(_sender: str, content: str) -> None:
        raise ValueError(content)

    bus.join("choking", choke)
    bus.join("member", heard)
    bus.send("somebody", "choking", "bone")
    bus.send("somebody", "member", "note")
    with pytest.raises(ValueError, match="bone"):
        bus.deliver()
    assert bus.deliver()
    assert heard.heard == [("somebody", "note")]


def test_a_name_is_taken_once_and_unknown_ones_are_found_at_once() -> None:
    bus = MemoryBus()
    bus.join("member", Recorder())
    with pytest.raises(AssertionError, match="already"):
        bus.join("member", Recorder())
    with pytest.raises(AssertionError, match="not on the bus"):
        bus.send("member", "nobody", "note")
