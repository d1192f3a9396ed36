from __future__ import annotations

from tocsin.message_manager.agenda import Agenda


def test_who_has_work_is_in_the_line_once_and_in_order() -> None:
    it = Agenda()
    for destination in (3, 1, 3, 2, 1):
        it.add(destination)
    assert [it.take() for _ in range(len(it))] == [3, 1, 2]
    it.add(3)
    assert len(it) == 1


def test_who_wrote_is_told_when_it_is_durable() -> None:
    it = Agenda()
    for lsn, destination in ((5, 1), (7, 2), (7, 1), (9, 3)):
        it.add_when_durable(lsn, destination)
    assert it.durable(4) == []
    assert it.durable(7) == [1, 2], "each once"
    assert it.durable(100) == [3]


def test_who_stopped_for_room_goes_on_when_there_is_some() -> None:
    it = Agenda()
    it.add_when_room(4)
    it.add_when_room(4)
    assert len(it) == 0
    it.room()
    assert it.take() == 4
    it.room()
    assert len(it) == 0


def test_only_the_earliest_time_counts() -> None:
    it = Agenda()
    it.add_at(10.0, 1)
    it.add_at(5.0, 1)
    it.add_at(8.0, 1)
    it.add_at(7.0, 2)
    assert it.next_time() == 5.0
    assert it.due(6.0) == [1]
    assert not it.has_time(1)
    assert it.has_time(2)
    assert it.due(20.0) == [2], "the later times of the first one count no more"
    assert it.next_time() is None


def test_times_of_deleted_destinations_are_not_kept() -> None:
    it = Agenda()
    it.add_at(3600.0, 0)
    for destination in range(1, 10_000):
        it.add_at(3600.0 + destination, destination)
        it.forget(destination)
    assert len(it._wakes) <= 256 and it.next_time() == 3600.0
    assert it.due(1e9) == [0]


def test_times_that_moved_forward_are_not_kept() -> None:
    it = Agenda()
    for number in range(10_000):
        it.add_at(20_000.0 - number, 1)
    assert len(it._wakes) <= 256
    assert it.due(10_001.0) == [1] and it.due(1e9) == []
