"""Controls: histories that are wrong must be found wrong, else the tests under faults would prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.system.ledger import Ledger, Seen, check
from tests.system.load import QUEUE, TOPIC, VIEWS

MESSAGES = 20


def right() -> Ledger:
    """Two producers, whose messages two consumers of the queue and the subscriber of the topic have seen in order."""
    ledger = Ledger(VIEWS)
    for number in range(MESSAGES):
        for producer in ("many", "single"):
            of_queue, of_topic = f"{producer}-{QUEUE}-{number:06}", f"{producer}-{TOPIC}-{number:06}"
            ledger.confirm(QUEUE, [of_queue])
            ledger.confirm(TOPIC, [of_topic])
            ledger.seen["groups" if number % 2 else "one by one"].append(Seen(of_queue, False, 1))
            ledger.seen["durable"].append(Seen(of_topic, False, 1))
            for each in (("queue", of_queue), ("durable", of_topic)):
                ledger.acknowledged.add(each)
                ledger.finished.add(each)
    return ledger


def lose_one(ledger: Ledger) -> None:
    del ledger.seen["groups"][3]


def lose_one_of_the_topic(ledger: Ledger) -> None:
    del ledger.seen["durable"][0]


def lose_the_last(ledger: Ledger) -> None:
    ledger.confirm(QUEUE, [f"many-{QUEUE}-{MESSAGES:06}"])


def double_one(ledger: Ledger) -> None:
    ledger.seen["groups"].append(ledger.seen["groups"][-1])


def double_one_at_the_other_consumer(ledger: Ledger) -> None:
    ledger.seen["one by one"].append(ledger.seen["groups"][-1])


def double_one_of_the_topic(ledger: Ledger) -> None:
    ledger.seen["durable"].insert(5, ledger.seen["durable"][4])


def swap_two(ledger: Ledger) -> None:
    seen = ledger.seen["groups"]
    seen[0], seen[2] = seen[2], seen[0]


def swap_two_of_the_topic(ledger: Ledger) -> None:
    seen = ledger.seen["durable"]
    seen[-1], seen[-3] = seen[-3], seen[-1]


def bring_one_back(ledger: Ledger) -> None:
    ledger.resurrected.append(ledger.seen["groups"][0].body)


def know_too_little(ledger: Ledger) -> None:
    ledger.finished.clear()


WRONG = [
    (lose_one, "lost"),
    (lose_one_of_the_topic, "lost"),
    (lose_the_last, "lost"),
    (double_one, "twice without the flag"),
    (double_one_at_the_other_consumer, "twice without the flag"),
    (double_one_of_the_topic, "twice without the flag"),
    (swap_two, "before"),
    (swap_two_of_the_topic, "before"),
    (bring_one_back, "came again"),
    (know_too_little, "too little is certain"),
]


def test_a_right_history_is_found_right() -> None:
    check(right())


def test_what_comes_again_with_the_flag_is_right() -> None:
    ledger = right()
    ledger.seen["one by one"].append(replace(ledger.seen["groups"][0], redelivered=True, count=2))
    check(ledger)


def test_what_was_not_confirmed_may_come_or_not() -> None:
    ledger = right()
    ledger.seen["durable"].append(Seen(f"many-{TOPIC}-{MESSAGES:06}", False, 1))
    check(ledger)


@pytest.mark.parametrize(("spoil", "complaint"), WRONG, ids=[spoil.__name__ for spoil, _ in WRONG])
def test_a_wrong_history_is_found_wrong(spoil: Callable[[Ledger], None], complaint: str) -> None:
    ledger = right()
    spoil(ledger)
    with pytest.raises(AssertionError, match=complaint):
        check(ledger)
