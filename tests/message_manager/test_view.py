from __future__ import annotations

from functools import partial
from random import Random

from tests.message_manager.effort import steps_of

from tocsin.cluster.commands import OpenConsumer
from tocsin.message_manager.consumer import EVERYTHING, Consumer
from tocsin.message_manager.locks import Lock
from tocsin.message_manager.view import Returned, Subscription, View
from tocsin.model.destination import parse_destination
from tocsin.model.ranges import RangeSet

OWNER = (b"s" * 16, 1)


def view() -> View:
    return View(0, 0, None)


def consumer() -> Consumer:
    opened = OpenConsumer(1, b"s" * 16, 1, parse_destination("queue:orders"), b"c" * 16, None)
    return Consumer("here", opened, None)


def spans(entries: list[Returned]) -> list[tuple[int, int]]:
    return [(entry.start, entry.end) for entry in entries]


def test_what_is_before_its_start_is_not_its_business() -> None:
    late = View(3, 10, None)
    assert late.free(0, 15) == [(10, 15)]


def test_free_is_what_is_neither_finished_nor_locked_nor_set_aside() -> None:
    it = view()
    assert it.free(0, 10) == [(0, 10)]
    it.finished.add(0, 2)
    it.locks.add(Lock(4, 6, OWNER, 1, 0.0))
    it.put_back(Returned(-4, 7, 8, 0), 0.0, 0.0)
    assert it.free(0, 10) == [(2, 4), (6, 7), (8, 10)]


def test_returned_messages_wait_in_the_order_of_delivery() -> None:
    it = view()
    for order, start in ((-4, 8), (-4, 2), (-9, 5)):
        it.put_back(Returned(order, start, start + 1, 1), 0.0, 0.0)
    assert spans(it.ready) == [(5, 6), (2, 3), (8, 9)]


def test_a_back_off_ends_when_its_time_comes() -> None:
    it = view()
    it.put_back(Returned(-4, 0, 1, 1), 10.0, 5.0)
    assert (it.ready, it.wake(9.9)) == ([], False)
    assert it.wake(10.0)
    assert spans(it.ready) == [(0, 1)]


def test_taking_a_part_of_a_returned_range_leaves_the_rest_in_place() -> None:
    it = view()
    it.put_back(Returned(-4, 0, 10, 2), 0.0, 0.0)
    it.put_back(Returned(-4, 20, 21, 0), 0.0, 0.0)
    it.take_ready(0, [(0, 2), (5, 7)])
    assert [(entry.start, entry.end, entry.attempts) for entry in it.ready] == [(2, 5, 2), (7, 10, 2), (20, 21, 0)]
    assert list(it.set_aside) == [(2, 5), (7, 10), (20, 21)]


def test_a_consumer_that_has_looked_is_told_what_came_back_before_that() -> None:
    it, who = view(), consumer()
    it.consumers[who] = None
    it.put_back(Returned(-4, 5, 6, 0), 0.0, 0.0)
    assert it.looked(who) == EVERYTHING
    who.looked = (-4, 6)
    it.put_back(Returned(-4, 9, 10, 0), 0.0, 0.0)
    assert it.looked(who) == (-4, 6)
    it.put_back(Returned(-4, 2, 3, 0), 0.0, 0.0)
    assert it.looked(who) == (-4, 2)
    it.look_again()
    assert it.looked(who) == EVERYTHING


def test_what_is_set_aside_for_others_than_the_list_stays_set_aside() -> None:
    it = view()
    it.set_aside.add(0, 5)
    it.put_back(Returned(-4, 5, 8, 1), 0.0, 0.0)
    assert spans(it.drop_set_aside(0, 10)) == [(5, 8)]
    assert list(it.set_aside) == [(0, 5)]


def test_what_is_reserved_for_a_group_is_taken_out_with_the_rest() -> None:
    it, who = view(), consumer()
    it.consumers[who] = None
    it.groups["group"] = who
    for offset in range(3, 7):
        it.set_aside.add(offset, offset + 1)
        who.reserve(offset)
    assert spans(it.drop_set_aside(4, 6)) == [(4, 6)]
    assert list(who.reserved) == [(3, 4), (6, 7)]
    assert list(it.set_aside) == [(3, 4), (6, 7)]
    assert who.reserved_messages == 2


def test_dropping_agrees_with_a_table_of_single_messages() -> None:
    random = Random(3)
    it = view()
    table: dict[int, tuple[int, int]] = {}
    for _ in range(1500):
        start = random.randrange(80)
        end = start + random.randrange(1, 9)
        if random.random() < 0.6:
            if not any(offset in table for offset in range(start, end)):
                order, attempts = -random.randrange(3), random.randrange(4)
                it.put_back(Returned(order, start, end, attempts), random.choice((0.0, 99.0)), 0.0)
                table |= dict.fromkeys(range(start, end), (order, attempts))
        else:
            taken = {
                offset: (entry.order, entry.attempts)
                for entry in it.drop_set_aside(start, end)
                for offset in range(entry.start, entry.end)
            }
            assert taken == {offset: what for offset, what in table.items() if start <= offset < end}
            for offset in taken:
                del table[offset]
        assert {offset for low, high in it.set_aside for offset in range(low, high)} == set(table)
        assert it.ready == sorted(it.ready)


def test_the_end_of_what_was_ever_handed_out() -> None:
    it = view()
    assert it.delivered_end() == 0
    it.suspect_below = 3
    it.locks.add(Lock(5, 8, OWNER, 1, 0.0))
    it.finished.add(0, 4)
    assert it.delivered_end() == 8


def test_terms_are_the_selector_and_no_local() -> None:
    one = Subscription("s", "me", True, False, "n > 1", False)
    assert one.same_terms(Subscription("t", None, False, True, "n > 1", False))
    assert not one.same_terms(Subscription("s", "me", True, False, "n > 2", False))
    assert not one.same_terms(Subscription("s", "me", True, False, "n > 1", True))
    assert View(1, 0, one).durable
    assert not View(1, 0, Subscription(None, None, False, False, None, False)).durable


def test_a_run_is_put_back_in_the_order_in_which_it_is_handed_out() -> None:
    it = view()
    it.put_back(Returned(-4, 0, 2, 1), 0.0, 0.0)
    it.put_back(Returned(-4, 9, 12, 1), 0.0, 0.0)
    it.put_back_run([Returned(-4, 2, 4, 0), Returned(-9, 4, 5, 0), Returned(-4, 5, 9, 0)])
    assert [(each.order, each.start) for each in it.ready] == [(-9, 4), (-4, 0), (-4, 2), (-4, 5), (-4, 9)]
    assert list(it.set_aside) == [(0, 12)]
    assert not it.idle


def test_what_is_taken_out_of_the_returned_ones_waits_no_more() -> None:
    it = view()
    for order, start, end in ((-4, 0, 4), (-9, 4, 6), (-4, 6, 9)):
        it.put_back(Returned(order, start, end, 1), 0.0, 0.0)
    it.take_out(2, 8)
    assert [(each.order, each.start, each.end) for each in it.ready] == [(-4, 0, 2), (-4, 8, 9)]
    assert list(it.set_aside) == [(0, 2), (8, 9)]
    it.take_out(2, 8)
    assert len(it.ready) == 2


def test_drained_messages_are_neither_free_nor_anything_else() -> None:
    it = view()
    assert (it.free(0, 10), it.in_flight(), it.is_held(0, 10)) == ([(0, 10)], 0, False)
    it.drained = RangeSet([(2, 4), (6, 7)])
    assert it.free(0, 10) == [(0, 2), (4, 6), (7, 10)]
    assert it.in_flight() == 3
    assert [it.is_held(start, start + 1) for start in (1, 2, 4, 6)] == [False, True, False, True]


def test_what_comes_back_costs_the_same_however_many_consumers_there_are() -> None:
    effort = []
    for count in (1, 1_000):
        it = view()
        it.consumers = dict.fromkeys(consumer() for _ in range(count))
        returned = [Returned(-4, 9 - number, 10 - number, 0) for number in range(9)]
        effort.append(sum(steps_of(partial(it.put_back, each, 0.0, 0.0)) for each in returned))
        effort[-1] += steps_of(it.look_again)
    assert effort[0] == effort[1]


def test_each_consumer_looks_from_the_first_message_that_came_back_since_it_looked() -> None:
    random = Random(5)
    it, crowd = view(), [consumer() for _ in range(5)]
    expected = dict.fromkeys(crowd, EVERYTHING)
    for _ in range(3_000):
        if random.random() < 0.5:
            who = random.choice(crowd)
            key = it.looked(who)
            assert key <= expected[who]
            who.looked = expected[who] = (-random.randrange(10), random.randrange(500))
            continue
        returned = Returned(-random.randrange(10), start := random.randrange(500), start + 1, 0)
        it.put_back(returned, 0.0, 0.0)
        expected = {who: min(key, returned.key) for who, key in expected.items()}
    assert len(it._offers) <= 64


def test_several_ranges_are_taken_out_at_once() -> None:
    it = view()
    for start in range(0, 40, 4):
        it.put_back(Returned(-4, start, start + 2, 1), 9.0 if start % 8 else 0.0, 0.0)
    taken = it.drop_all_set_aside([(1, 6), (20, 29)])
    assert sorted(spans(taken)) == [(1, 2), (4, 6), (20, 22), (24, 26), (28, 29)]
    assert it.set_aside.count() == 20 - 8
    left = [*it.ready, *(entry for _, entry in it.later)]
    assert sorted(spans(left)) == [(0, 1), (8, 10), (12, 14), (16, 18), (29, 30), (32, 34), (36, 38)]


def test_many_that_come_back_are_put_where_each_of_them_would_be() -> None:
    random = Random(8)
    for _ in range(50):
        one, many, start, rows = view(), view(), 0, []
        for _ in range(30):
            start += random.choice((0, 0, 0, 3))
            rows.append(Returned(-random.randrange(3), start, start + 2, 0))
            start += 2
        early = {random.randrange(30) for _ in range(8)}
        for it in (one, many):
            for index in early:
                it.put_back(rows[index], 0.0, 0.0)
        late = [row for index, row in enumerate(rows) if index not in early]
        many.put_back_all(late)
        for row in late:
            one.put_back(row, 0.0, 0.0)
        assert many.ready == one.ready and many.set_aside == one.set_aside


def test_a_long_run_that_comes_back_is_one_step() -> None:
    rows, it = [Returned(-4, start, start + 1, 0) for start in range(500)], view()
    assert steps_of(partial(it.put_back_all, rows)) < 6 * 500
    assert it.ready == rows and list(it.set_aside) == [(0, 500)] and len(it._offers) == 1
