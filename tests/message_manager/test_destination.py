from __future__ import annotations

from functools import partial
from random import Random

import pytest
from tests.message_manager.effort import steps_of

from tocsin.message_manager.destination import DestinationState, Options
from tocsin.message_manager.view import Subscription, View
from tocsin.model.batch import BatchHeader, Block, DeliveryMode, encode_block
from tocsin.model.destination import Kind, parse_destination

DURABLE = Subscription("s", "me", True, False, None, False)


def block(count: int = 1, mode: DeliveryMode = DeliveryMode.PERSISTENT) -> Block:
    return Block(encode_block(BatchHeader("news", Kind.TOPIC, count, delivery_mode=mode), []))


def topic(*views: int, retained: bool = False) -> DestinationState:
    state = DestinationState(1, parse_destination("topic:news"), Options(retained=retained), None)
    for number in views:
        state.apply_subscribe(View(number, 0, DURABLE))
    return state


def store(state: DestinationState, *counts: int, mode: DeliveryMode = DeliveryMode.PERSISTENT) -> None:
    for count in counts:
        state.apply_store(state.lsn + 1, block(count, mode), False, 1000)


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (7, 64), (8, 100), (99, 100)])
def test_the_back_off_doubles_up_to_a_hundredfold(attempts: int, seconds: int) -> None:
    assert Options(backoff_ms=1000).backoff(attempts) == seconds


def test_a_row_is_needed_until_every_view_has_finished_it() -> None:
    state = topic(1, 2)
    store(state, 3)
    state.apply_finish(state.views[1], 0, 3, None)
    assert (len(state.log), list(state.log.needed)) == (1, [1])
    state.apply_finish(state.views[2], 0, 2, None)
    assert list(state.log.needed) == [1]
    state.apply_finish(state.views[2], 2, 3, None)
    assert (len(state.log), state.log.live_bytes, state.log.first_offset) == (0, 0, 3)


def test_finishing_over_the_edges_of_rows_counts_each_row_once() -> None:
    state = topic(1)
    store(state, 2, 2, 2)
    state.apply_finish(state.views[1], 1, 5, None)
    assert list(state.log.needed) == [1, 0, 1]
    state.apply_finish(state.views[1], 0, 1, None)
    assert state.log.needed[0] == 0
    state.apply_finish(state.views[1], 5, 6, None)
    assert len(state.log) == 0


def test_a_view_that_ends_finishes_what_it_had_left() -> None:
    state = topic(1, 2)
    store(state, 2, 2)
    state.apply_finish(state.views[1], 1, 3, None)
    state.apply_unsubscribe(state.views[1], None)
    assert list(state.log.needed) == [1, 1]
    state.apply_unsubscribe(state.views[2], None)
    assert len(state.log) == 0


def test_retained_rows_stay_until_they_are_trimmed_whole() -> None:
    state = topic(1, retained=True)
    store(state, 2, 2, 2)
    state.apply_finish(state.views[1], 0, 6, None)
    assert len(state.log) == 3
    state.apply_trim(3, None)
    assert (state.log.first_offset, state.log.live_bytes) == (2, 2 * block(2).length)
    assert state.views[1].finished.covers(0, 2)


def test_a_view_may_begin_inside_a_row() -> None:
    state = topic(retained=True)
    store(state, 4, 4)
    state.apply_subscribe(View(1, 2, DURABLE))
    assert state.views[1].free(0, 8) == [(2, 8)]
    assert list(state.log.needed) == [0, 1]
    state.apply_finish(state.views[1], 2, 8, None)
    assert list(state.log.needed) == [0, 0]


def test_non_persistent_rows_are_forgotten_after_a_restart() -> None:
    state = topic(1)
    store(state, 2, mode=DeliveryMode.NON_PERSISTENT)
    store(state, 3)
    state.forget_volatile()
    assert state.views[1].free(0, 5) == [(2, 5)]
    assert state.backlog() == 5 and state.ready_messages(state.views[1]) == 3


def test_a_range_is_cut_into_the_rows_it_touches() -> None:
    state = topic(1)
    store(state, 2, 3)
    assert state.rows_in(1, 99) == [(0, (1, 2)), (1, (2, 5))]
    assert state.rows_in(7, 9) == []
    assert (state.needs(1), state.needs(5)) == (True, False)


def test_rows_are_counted_for_each_view_as_by_a_look_at_each_of_them() -> None:
    random = Random(11)
    for _ in range(30):
        state = topic(1, 2, retained=random.random() < 0.5)
        for number in range(3, 6):
            store(state, *(random.randrange(1, 5) for _ in range(10)))
            state.apply_subscribe(View(number, random.randrange(state.log.next_offset + 1), DURABLE))
        for _ in range(60):
            view = random.choice(list(state.views.values()))
            start = random.randrange(state.log.next_offset)
            for low, high in view.finished.missing(start, start + random.randrange(1, 30)):
                state.apply_finish(view, low, high, None)
        state.apply_unsubscribe(state.views[3], None)
        for row in range(state.log.base, state.log.end):
            first, end = state.log.span(row)
            needing = [view for view in state.views.values() if first >= view.start]
            expected = sum(not view.finished.covers(first, end) for view in needing)
            assert state.log.needed[row - state.log.base] == expected


def test_a_view_comes_and_goes_at_little_cost_for_each_row() -> None:
    state = topic(retained=True)
    store(state, *([1] * 1_000))
    late = View(7, 0, DURABLE)
    assert steps_of(partial(state.apply_subscribe, late)) < 1_100
    assert steps_of(partial(state.apply_unsubscribe, late, None)) < 1_100
