"""So many handshakes at once, of all and of one address; the others wait, and no address holds up another."""

from __future__ import annotations

import pytest

from tocsin.model.entrance_limits import HANDSHAKES_MAX, HANDSHAKES_PER_ADDRESS_MAX
from tocsin.runtime.handshakes import Handshakes


class Stage:
    def __init__(self) -> None:
        self.handshakes = Handshakes()
        self.begun: list[int] = []
        self._places: dict[int, str] = {}

    def come(self, place: str, count: int = 1) -> list[int]:
        """Returns the numbers of those who come from there."""
        numbers = [len(self._places) + each for each in range(count)]
        for number in numbers:
            self._places[number] = place
            self.handshakes.enter(number, place, lambda number=number: self.begun.append(number))  # type: ignore[misc]
        return numbers

    def go(self, *numbers: int) -> None:
        for number in numbers:
            self.handshakes.leave(number, self._places[number])

    def fill(self) -> list[int]:
        """As many as there may be, of as many places as it takes."""
        places = HANDSHAKES_MAX // HANDSHAKES_PER_ADDRESS_MAX
        return [number for each in range(places) for number in self.come(f"crowd {each}", HANDSHAKES_PER_ADDRESS_MAX)]


def test_an_address_has_so_many_and_the_others_of_it_wait_in_order() -> None:
    stage = Stage()
    crowd = stage.come("10.0.0.7", HANDSHAKES_PER_ADDRESS_MAX + 3)
    assert stage.begun == crowd[:-3]
    (other,) = stage.come("10.0.0.8")
    assert stage.begun[-1] == other
    stage.go(crowd[5], crowd[9])
    assert stage.begun[-2:] == crowd[-3:-1]


def test_all_have_so_many_and_places_take_turns() -> None:
    stage = Stage()
    crowd = stage.fill()
    many, (one,) = stage.come("10.0.0.7", 5), stage.come("10.0.0.8")
    assert stage.begun == crowd and len(stage.handshakes) == HANDSHAKES_MAX
    stage.go(*crowd[:3])
    assert stage.begun[-3:] == [many[0], one, many[1]]


def test_a_place_that_has_all_it_may_have_is_passed_over() -> None:
    stage = Stage()
    crowd = stage.fill()
    (greedy,), (modest,) = stage.come("crowd 0"), stage.come("10.0.0.8")
    stage.go(crowd[-1])
    assert stage.begun[-1] == modest
    stage.go(crowd[0])
    assert stage.begun[-1] == greedy


def test_one_that_waits_can_leave_and_one_that_has_left_counts_once() -> None:
    stage = Stage()
    crowd = stage.come("10.0.0.7", HANDSHAKES_PER_ADDRESS_MAX)
    first, second, third = stage.come("10.0.0.7", 3)
    stage.go(first)
    stage.go(crowd[0], crowd[0], crowd[0])
    assert stage.begun[-1] == second and third not in stage.begun


def test_nothing_is_remembered_of_those_who_have_gone() -> None:
    stage = Stage()
    numbers = [number for each in range(40) for number in stage.come(f"10.0.0.{each}", 10)]
    stage.go(*reversed(numbers))
    handshakes = stage.handshakes
    assert not len(handshakes) and not handshakes._counts and not handshakes._waiting


@pytest.mark.parametrize("place", ["10.0.0.7", "10.0.0.8"])
def test_who_leaves_as_soon_as_it_begins_makes_room_at_once(place: str) -> None:
    stage = Stage()
    crowd = stage.come("10.0.0.7", HANDSHAKES_PER_ADDRESS_MAX)
    handshakes = stage.handshakes
    handshakes.enter(1000, place, lambda: handshakes.leave(1000, place))
    handshakes.enter(1001, place, lambda: stage.begun.append(1001))
    stage.go(crowd[0])
    assert stage.begun[-1] == 1001
