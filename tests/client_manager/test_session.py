from __future__ import annotations

import pytest

from tocsin.client_manager.accounts import Account, Accounts
from tocsin.client_manager.session import ProducerState, SessionState, window_for
from tocsin.model.destination import parse_destination
from tocsin.model.errors import IllegalState
from tocsin.model.identity import DestinationId
from tocsin.model.limits import PRODUCER_WINDOW_BYTES, PRODUCER_WINDOW_BYTES_MIN


def producer() -> ProducerState:
    return ProducerState(parse_destination("queue:orders"), DestinationId(1), Account(Accounts()))


def test_credit_rises_with_what_is_finished() -> None:
    it = producer()
    assert it.settle(0, 1000) == 1000
    assert it.take(5, 600)
    assert it.take(9, 400)
    assert it.settle(5, 1000) == 1600
    assert it.settle(9, 1000) == 2000


def test_credit_never_falls() -> None:
    it = producer()
    it.settle(0, 1000)
    assert it.settle(0, 10) == 1000


def test_more_than_the_credit_is_noticed() -> None:
    it = producer()
    it.settle(0, 1000)
    assert it.take(1, 900)
    assert not it.take(2, 200)


def test_a_producer_with_nothing_on_the_way_may_send_one_block_of_any_size() -> None:
    it = producer()
    it.settle(0, 10)
    assert it.take(1, 5000)
    assert not it.take(2, 1)
    it.settle(2, 10)
    assert it.take(3, 5000)


def test_many_producers_share_what_may_be_on_the_way() -> None:
    assert window_for(0) == window_for(1) == PRODUCER_WINDOW_BYTES
    assert window_for(1_000_000) == PRODUCER_WINDOW_BYTES_MIN
    assert PRODUCER_WINDOW_BYTES > window_for(100) > PRODUCER_WINDOW_BYTES_MIN


def test_an_idle_producer_holds_no_queue() -> None:
    """There may be a hundred thousand of them."""
    state = ProducerState(parse_destination("queue:orders"), DestinationId(1), Account(Accounts()))
    for round_ in range(1, 4):
        state.take(round_, 100)
        assert state._outstanding is not None
        state.settle(round_, 1_000)
        assert state._outstanding is None
    assert (state.received, state.finished, state.allowed) == (300, 300, 1_300)


ORDERS, OTHERS = parse_destination("queue:orders"), parse_destination("queue:others")


def session() -> SessionState:
    return SessionState(1, b"s" * 16, 0, 1, Account(Accounts()))


def opened(it: SessionState, number: int) -> None:
    it.producers[number] = producer()
    it.producer_answered(number, ORDERS)


def test_a_producer_counts_from_the_request_until_it_is_closed() -> None:
    it = session()
    it.count_producer(7, ORDERS)
    opened(it, 7)
    assert it.usage.producers.count == 1
    del it.producers[7]
    it.drop_producer(7)
    assert it.usage.producers.count == 0


def test_a_producer_that_could_not_be_opened_does_not_count() -> None:
    it = session()
    it.count_producer(7, ORDERS)
    it.producer_answered(7, ORDERS)
    assert it.usage.producers.count == 0


def test_a_number_that_is_taken_opens_no_second_producer_elsewhere() -> None:
    """Only one of the two would count, and a user could have any number."""
    it = session()
    it.count_producer(7, ORDERS)
    with pytest.raises(IllegalState, match="Producer 7 of the session is open for queue:orders already"):
        it.count_producer(7, OTHERS)


def test_of_two_requests_for_one_producer_the_one_that_fails_does_not_end_what_the_other_opens() -> None:
    it = session()
    it.count_producer(7, ORDERS)
    it.count_producer(7, ORDERS)
    it.producer_answered(7, ORDERS)
    assert it.usage.producers.count == 1 and it.is_opening(7, ORDERS)
    opened(it, 7)
    assert it.usage.producers.count == 1


def test_the_answer_to_a_session_of_before_opens_nothing() -> None:
    it = session()
    assert not it.is_opening(7, ORDERS)
    it.count_producer(7, OTHERS)
    assert not it.is_opening(7, ORDERS)
    it.producer_answered(7, ORDERS)
    assert it.usage.producers.count == 1 and it.is_opening(7, OTHERS)
