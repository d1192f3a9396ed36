"""Selectors that cost much: they are asked within budgets, and no other client waits for them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.message_manager.dialogue import check, server, session_of, state_of

from tocsin.message_manager.budget import Step
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.searching import Search, StillLooking
from tocsin.message_manager.selector import compile_selector
from tocsin.model.batch import BatchHeader, Block, Column, encode_block
from tocsin.model.columns import value_column
from tocsin.model.destination import Kind
from tocsin.model.errors import InvalidSelector
from tocsin.model.limits import ROWS_PER_STEP
from tocsin.model.ranges import RangeSet
from tocsin.model.selector_limits import SELECTOR_STEPS_AT_STORE, SELECTOR_STEPS_MAX, SELECTOR_STEPS_PER_ROW
from tocsin.model.values import Type

DEAR = " OR ".join(f"text LIKE '%{n}_zz%'" for n in range(80))
"""Within what is allowed; each character costs 1,700 steps."""
HUGE = "zz" * 50_000
DEAR_TEXT = "zz" * 4_000
"""Not too much for one message, and most of what a turn may do."""


def block(texts: list[str]) -> Block:
    column = value_column(Column.PROPERTY, Type.STRING, "text", texts)
    return Block(encode_block(BatchHeader("orders", Kind.QUEUE, len(texts)), [column]))


def search(text: str = DEAR) -> Search:
    selector = compile_selector(text)
    assert selector is not None
    selector.cost.check()
    return Search(selector)


def test_a_row_is_asked_about_in_parts_and_each_message_once() -> None:
    it, texts = search(), [DEAR_TEXT + "7xzz" if n % 3 == 0 else DEAR_TEXT for n in range(20)]
    row, turns, spent, found = block(texts), 0, 0, RangeSet()
    while turns < 1_000:
        turns += 1
        step = Step(30.0)
        try:
            found = it.look(5, 100, row, step)
            break
        except StillLooking:
            cost = (ROWS_PER_STEP - step.rows) * SELECTOR_STEPS_PER_ROW
            assert cost <= ROWS_PER_STEP * SELECTOR_STEPS_PER_ROW + SELECTOR_STEPS_MAX, "what one turn does"
            spent += cost
    assert turns > 10 and spent
    assert list(found) == [(100 + n, 101 + n) for n in range(0, 20, 3)]
    assert it.look(5, 100, row, Step(30.0, rows=0)) is found, "the answer is kept"


def test_a_message_that_costs_too_much_is_named_and_the_others_are_asked_about() -> None:
    it = search()
    found = it.look(5, 10, block(["a1xzz", HUGE, "b2xzz"]), Step(30.0))
    assert list(found) == [(10, 11), (12, 13)] and it.costly == [11]
    assert it.take_costly() == [11] and it.take_costly() == []


def test_each_turn_of_a_dear_search_is_short_and_nothing_is_left_out() -> None:
    driver = server(cache_bytes=1 << 24)
    session = session_of(driver)
    producer = session.producer("queue:dear")
    for number in range(30):
        producer.send(str(number), properties={"text": [DEAR_TEXT + ("7xzz" if number % 2 else "")]})
    taken: list[int] = []
    run = driver.manager._serve

    work = driver.manager.ledger.work

    def watch(state: DestinationState) -> bool:
        before = work.left
        more = run(state)
        taken.append(before - work.left)
        return more

    driver.manager._serve = watch  # type: ignore[method-assign]
    consumer = session.consumer("queue:dear", selector=DEAR)
    assert consumer.bodies() == [str(number) for number in range(30) if number % 2]
    dearest = SELECTOR_STEPS_MAX // SELECTOR_STEPS_PER_ROW
    assert max(taken) <= ROWS_PER_STEP + dearest and sum(taken) > 10 * ROWS_PER_STEP, "many turns, none of them long"
    check(driver.manager)


def test_a_queue_consumer_is_told_of_a_message_that_costs_too_much_and_goes_on() -> None:
    driver = server()
    session = session_of(driver)
    producer = session.producer("queue:orders")
    consumer = session.consumer("queue:orders", selector=DEAR)
    producer.send("huge", properties={"text": [HUGE + "7xzz"]})
    producer.send("small", properties={"text": ["7xzz"]})
    assert consumer.bodies() == ["small"]
    assert consumer.ended is not None and not consumer.ended.get("end")
    assert consumer.ended["code"] == InvalidSelector.code and "offset 0 of queue:orders" in consumer.ended["text"]
    other = session.consumer("queue:orders")
    assert other.bodies() == ["huge"], "it stays for others"


@pytest.mark.parametrize("durable", [True, False])
def test_a_subscription_keeps_a_message_that_it_can_not_be_asked_about(durable: bool) -> None:
    driver = server()
    session = driver.connect("me").session()
    producer = session.producer("topic:news")
    terms: dict[str, Any] = {"subscription": "s", "durable": True} if durable else {}
    reader = session.consumer("topic:news", selector=DEAR, **terms)
    for text in ("7xzz", HUGE + "7xzz", "a", "8yzz"):
        producer.send(text[-6:], properties={"text": [text]})
    assert reader.bodies() == ["7xzz", "8yzz"]
    assert reader.ended is not None and reader.ended["code"] == InvalidSelector.code
    view = next(iter(state_of(driver, "topic:news").views.values()))
    assert [(each.start, each.end) for each in view.unreadable] == [(1, 2)], "neither lost nor delivered"
    check(driver.manager)
    if durable:
        again = driver.crash()
        session = again.connect("me").session()
        late = session.consumer("topic:news", selector=DEAR, **terms)
        assert "8yzz" in late.bodies() and late.ended is not None and late.ended["code"] == InvalidSelector.code


def test_storing_does_not_wait_for_dear_subscriptions() -> None:
    driver = server()
    session = driver.connect("me").session()
    session.consumer("topic:news", selector=DEAR, subscription="dear", durable=True).close()
    session.consumer("topic:news", selector="text = 'b'", subscription="cheap", durable=True).close()
    producer = session.producer("topic:news")
    producer.send("a", "b", properties={"text": [DEAR_TEXT, DEAR_TEXT + "7xzz"]})
    dear, cheap = state_of(driver, "topic:news").views.values()
    assert len(DEAR_TEXT) * dear.selector.cost.rates["text"] > SELECTOR_STEPS_AT_STORE  # type: ignore[union-attr]
    assert not dear.finished.covers(0, 1), "it is asked on the way out"
    assert cheap.finished.covers(0, 2), "who is cheap is asked at once"
    driver = driver.crash()
    session = driver.connect("me").session()
    consumer = session.consumer("topic:news", selector=DEAR, subscription="dear", durable=True)
    assert consumer.bodies() == ["b"]
    check(driver.manager)


def test_browsers_and_readers_of_what_costs_too_much_end_in_words() -> None:
    driver = server()
    session = session_of(driver)
    session.producer("queue:orders").send("huge", properties={"text": [HUGE]})
    browser = session.consumer("queue:orders", selector=DEAR, mode="browse")
    assert browser.ended is not None and browser.ended["end"] and "20,000,000 steps" in browser.ended["text"]


def test_a_selector_beyond_the_bound_is_refused_when_it_is_opened() -> None:
    driver = server()
    session = session_of(driver)
    with pytest.raises(InvalidSelector, match="use fewer LIKE patterns"):
        session.consumer("queue:orders", selector=" OR ".join(f"text LIKE '%{n}_zz%'" for n in range(240)))
