"""Controls: histories that are wrong must be found wrong, else the tests under faults would prove nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.system.full_load import DELAYS, LATER, PRIORITIES, RETAINED, URGENT, FullLoad
from tests.system.ledger import Ledger, Reader, Seen, check, check_log
from tests.system.load import QUEUE, TOPIC

MESSAGES = 20


def right() -> Ledger:
    """Two producers, whose messages the consumers of all kinds have seen in order, each as it should be seen."""
    ledger = Ledger(FullLoad.views)
    for number in range(MESSAGES):
        for name, ways in ((URGENT, PRIORITIES), (LATER, DELAYS)):
            body = f"single-{name}.{number % len(ways)}-{number:06}"
            ledger.confirm(name, [body])
            ledger.seen[name].append(Seen(body, False, 1))
            ledger.acknowledged.add((name, body))
        for producer in ("many", "single"):
            of_queue, of_topic = f"{producer}-{QUEUE}-{number:06}", f"{producer}-{TOPIC}-{number:06}"
            ledger.confirm(QUEUE, [of_queue])
            ledger.confirm(TOPIC, [of_topic])
            ledger.seen["groups" if number % 2 else "one by one"].append(Seen(of_queue, False, 1))
            ledger.seen["durable"].append(Seen(of_topic, False, 1))
            ledger.seen["shared 1" if number % 3 else "shared 2"].append(Seen(of_topic, False, 1))
            ledger.confirm(RETAINED, [f"{producer}-{RETAINED}-{number:06}"])
            ledger.note_replayed(ledger.log_end, f"{producer}-{RETAINED}-{number:06}")
            for each in (("queue", of_queue), ("durable", of_topic), ("shared", of_topic)):
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


def lose_one_of_the_shared_subscription(ledger: Ledger) -> None:
    del ledger.seen["shared 2"][1]


def double_one_at_the_other_who_shares(ledger: Ledger) -> None:
    ledger.seen["shared 2"].append(ledger.seen["shared 1"][-1])


def swap_two_of_a_priority(ledger: Ledger) -> None:
    seen = ledger.seen["urgent"]
    seen[0], seen[3] = seen[3], seen[0]


def swap_two_of_a_delay(ledger: Ledger) -> None:
    seen = ledger.seen["later"]
    seen[-1], seen[-4] = seen[-4], seen[-1]


def lose_one_of_the_delayed(ledger: Ledger) -> None:
    del ledger.seen["later"][2]


def deliver_too_early(ledger: Ledger) -> None:
    ledger.due["single-later.0-000021"] = time.monotonic() + 1.0
    Reader(ledger, "later", "later").see(message("single-later.0-000021"))


def deliver_what_was_refused(ledger: Ledger) -> None:
    ledger.refuse(f"single-{QUEUE}-000007")


def deliver_after_the_account(ledger: Ledger) -> None:
    ledger.settle()
    Reader(ledger, "queue", "groups").see(message(f"single-{QUEUE}-000007", redelivered=True))


def answer_another_request(ledger: Ledger) -> None:
    ledger.wrong_answers.append("'REQUEST 2' to 'request 3'")


def skip_an_offset(ledger: Ledger) -> None:
    ledger.note_replayed(ledger.log_end + 1, f"single-{RETAINED}-000021")


def replay_an_offset_again(ledger: Ledger) -> None:
    ledger.note_replayed(ledger.log_end - 1, f"single-{RETAINED}-000019")


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
    (lose_one_of_the_shared_subscription, "lost by shared"),
    (double_one_at_the_other_who_shares, "twice without the flag by shared"),
    (swap_two_of_a_priority, "urgent saw single-urgent.0-3 before single-urgent.0-0"),
    (swap_two_of_a_delay, "later saw single-later.1-19 before single-later.1-16"),
    (lose_one_of_the_delayed, "lost by later"),
    (deliver_too_early, "before it was due"),
    (deliver_what_was_refused, "though refused"),
    (deliver_after_the_account, "came again"),
    (answer_another_request, "not the answer"),
    (skip_an_offset, "at offset 41 of the replay, not at 40"),
    (replay_an_offset_again, "at offset 39 of the replay, not at 40"),
    (bring_one_back, "came again"),
    (know_too_little, "too little is certain"),
]


WRONG_LOGS: list[tuple[Callable[[dict[int, str]], object], str]] = [
    (lambda log: log.pop(7), "lost by the replay"),
    (lambda log: log.update({40: log[3]}), "the log has twice"),
    (lambda log: log.update({4: log[6], 6: log[4]}), "the replay saw"),
]


def message(body: str, *, redelivered: bool = False) -> Any:
    return SimpleNamespace(body=body, redelivered=redelivered, delivery_count=1 + redelivered)


def test_a_right_history_is_found_right() -> None:
    check(right())
    check_log(right(), RETAINED)


@pytest.mark.parametrize(("spoil", "complaint"), WRONG_LOGS, ids=["lost", "doubled", "swapped"])
def test_a_wrong_log_is_found_wrong(spoil: Callable[[dict[int, str]], object], complaint: str) -> None:
    ledger = right()
    spoil(ledger.log)
    with pytest.raises(AssertionError, match=complaint):
        check_log(ledger, RETAINED)


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
