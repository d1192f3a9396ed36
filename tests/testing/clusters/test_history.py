"""The history of applications: a checker that cannot fail proves nothing."""

from __future__ import annotations

import pytest

from tocsin.model.errors import IllegalState, StorageFull
from tocsin.testing.clusters.history import DEAD_MESSAGES, History, Received, Sent, ViewHistory
from tocsin.testing.simulation.checkers import Violation

QUEUE = "queue:q"


def sent(history: History, body: str, at: float = 0.0) -> Sent:
    message = Sent(body, QUEUE, "1/1", at, persistent=True)
    history.sends(message)
    history.confirms(message, at + 0.1)
    return message


def take(history: History, view: ViewHistory, body: str, offset: int, at: float, redelivered: bool = False) -> None:
    history.takes(view, Received(body, offset, redelivered, at, "client 1"), at + 0.1)


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def view(history: History) -> ViewHistory:
    return history.view(QUEUE, QUEUE)


def test_a_confirmed_message_is_missing_until_it_is_acknowledged(history: History, view: ViewHistory) -> None:
    sent(history, "a")
    assert history.all_missing() == {QUEUE: ["a"]}
    take(history, view, "a", 0, 1.0)
    assert history.all_missing() == {QUEUE: ["a"]}
    view.acknowledging.add("a")
    assert not history.all_missing()


def test_a_subscription_misses_nothing_from_before_it(history: History) -> None:
    view = history.view("topic:t for s", QUEUE)
    view.since = 5.0
    sent(history, "early", 4.0)
    sent(history, "late", 6.0)
    assert history.all_missing() == {"topic:t for s": ["late"]}


def test_dead_messages_are_accounted_for_once(history: History, view: ViewHistory) -> None:
    sent(history, "a")
    take(history, history.view(DEAD_MESSAGES, DEAD_MESSAGES), "a", 0, 1.0)
    assert not history.all_missing()
    history.check_accounts()
    history.acknowledged(view, ["a"], 2.0)
    with pytest.raises(Violation, match="I12"):
        history.check_accounts()


def test_a_second_delivery_without_a_flag(history: History, view: ViewHistory) -> None:
    sent(history, "a")
    take(history, view, "a", 0, 1.0)
    take(history, view, "a", 0, 2.0, redelivered=True)
    take(history, view, "a", 0, 1.0)  # Sent before the first one was seen: it was only under way for long.
    with pytest.raises(Violation, match="I9"):
        take(history, view, "a", 0, 2.0)


def test_a_delivery_after_the_acknowledgement(history: History, view: ViewHistory) -> None:
    sent(history, "a")
    take(history, view, "a", 0, 1.0)
    history.acknowledged(view, ["a"], 2.0)
    with pytest.raises(Violation, match="I10"):
        take(history, view, "a", 0, 3.0, redelivered=True)


def test_a_message_stored_twice(history: History, view: ViewHistory) -> None:
    sent(history, "a")
    take(history, view, "a", 0, 1.0)
    with pytest.raises(Violation, match="I8"):
        take(history, view, "a", 7, 2.0, redelivered=True)


def test_messages_out_of_order(history: History, view: ViewHistory) -> None:
    sent(history, "a")
    sent(history, "b")
    take(history, view, "b", 0, 1.0)
    history.check_order()
    take(history, view, "a", 1, 1.0)
    with pytest.raises(Violation, match="I8"):
        history.check_order()


def test_a_message_that_nobody_sent_or_that_was_refused(history: History, view: ViewHistory) -> None:
    with pytest.raises(Violation, match="nobody sent"):
        take(history, view, "a", 0, 1.0)
    history.refuses(sent(history, "b"), StorageFull("No room."))
    with pytest.raises(Violation, match="not stored"):
        take(history, view, "b", 0, 1.0)


def test_a_gap_behind_nothing_that_was_refused(history: History) -> None:
    gap = IllegalState("Messages that came before these were refused.")
    with pytest.raises(Violation, match="I8"):
        history.refuses(sent(history, "a"), gap)
    history.refuses(sent(history, "b"), StorageFull("No room."))
    history.refuses(sent(history, "c"), gap)
