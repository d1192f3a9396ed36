from __future__ import annotations

from random import Random

from tocsin.message_manager.locks import Lock, Locks
from tocsin.model.ranges import RangeSet, merged

A, B = (b"a" * 16, 1), (b"b" * 16, 1)


def spans(locks: list[Lock]) -> list[tuple[int, int]]:
    return [(lock.start, lock.end) for lock in locks]


def test_taking_a_part_leaves_the_rest_locked() -> None:
    locks = Locks()
    locks.add(Lock(0, 10, A, 2, 5.0))
    (taken,), _ = locks.take([(3, 6)], A, 10)
    assert (taken.start, taken.end, taken.count) == (3, 6, 2)
    assert locks.overlapping(0, 10) == [(0, 3), (6, 10)]
    assert locks.messages() == 7


def test_nobody_takes_what_another_has_locked() -> None:
    locks = Locks()
    locks.add(Lock(0, 5, A, 1, 5.0))
    locks.add(Lock(5, 10, B, 1, 5.0))
    assert spans(locks.take([(0, 10)], B, 10)[0]) == [(5, 10)]
    assert spans(locks.of(A)) == [(0, 5)]
    assert locks.take([(0, 10)], B, 10) == ([], None)


def test_a_lock_between_others_finds_its_place() -> None:
    locks = Locks()
    for start in (10, 0, 5):
        locks.add(Lock(start, start + 2, A, 1, float(start)))
    assert spans(list(locks)) == [(0, 2), (5, 7), (10, 12)]
    assert locks.overlapping(1, 11) == [(1, 2), (5, 7), (10, 11)]
    assert (locks.end(), locks.earliest_deadline()) == (12, 0.0)


def test_renewal_reaches_the_owner_alone() -> None:
    locks = Locks()
    locks.add(Lock(0, 5, A, 1, 5.0))
    locks.add(Lock(5, 10, B, 1, 5.0))
    locks.renew(0, 10, A, 50.0)
    assert [lock.deadline for lock in locks] == [50.0, 5.0]


def test_everything_of_an_owner_can_be_taken() -> None:
    locks = Locks()
    locks.add(Lock(0, 5, A, 1, 5.0))
    locks.add(Lock(5, 10, B, 1, 5.0))
    locks.add(Lock(10, 15, A, 1, 5.0))
    assert spans(locks.take_owner(A)) == [(0, 5), (10, 15)]
    assert spans(list(locks)) == [(5, 10)]


def test_it_agrees_with_a_table_of_single_messages() -> None:
    random = Random(7)
    locks, table = Locks(), dict[int, tuple[bytes, int]]()
    for _ in range(2000):
        start = random.randrange(60)
        end = start + random.randrange(1, 12)
        owner = random.choice((A, B))
        if random.random() < 0.5:
            if not any(offset in table for offset in range(start, end)):
                locks.add(Lock(start, end, owner, 1, 0.0))
                table |= dict.fromkeys(range(start, end), owner)
        else:
            ranges = merged([(start, end), (start + 20, end + 22), (start + 5, end + 1)])
            most, going = random.choice((1, 3, 100)), list(ranges)
            taken = set[int]()
            while going:
                some, go_on = locks.take(going, owner, most)
                taken |= {offset for lock in some for offset in range(lock.start, lock.end)}
                going = [] if go_on is None else RangeSet(going).within(go_on, 1000)
            expected = {each for low, high in ranges for each in range(low, high) if table.get(each) == owner}
            assert taken == expected
            for offset in expected:
                del table[offset]
        locked = {offset for low, high in locks.overlapping(0, 100) for offset in range(low, high)}
        assert locked == set(table)
        assert all(locks.count_of(each) == len(locks.of(each)) for each in (A, B))


def test_a_long_take_stops_and_says_where_to_go_on() -> None:
    locks = Locks()
    for start in range(0, 100, 2):
        locks.add(Lock(start, start + 2, A, 1, 0.0))
    taken, go_on = locks.take([(0, 1_000)], A, 10)
    assert spans(taken) == [(start, start + 2) for start in range(0, 20, 2)] and go_on == 20
    assert locks.count_of(A) == len(locks) == 40
    taken, go_on = locks.take([(20, 23), (25, 90), (95, 1_000)], A, 100)
    assert go_on is None and spans(list(locks)) == [(23, 24), (24, 25), (90, 92), (92, 94), (94, 95)]
