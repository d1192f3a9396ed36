"""Message groups: one consumer for each, in order, handed over when it leaves."""

from __future__ import annotations

from functools import partial

import pytest
from tests.message_manager.dialogue import ends, queue_view, server, session_of
from tests.message_manager.effort import steps_of
from tests.message_manager.test_view import consumer as some_consumer

from tocsin.message_manager.budget import Step
from tocsin.message_manager.grouping import _forget_idle_group, leave_groups
from tocsin.message_manager.locks import Lock
from tocsin.message_manager.view import View
from tocsin.testing.scripted_session import ScriptedConsumer


def bodies_of(consumers: list[ScriptedConsumer]) -> dict[str, set[int]]:
    """Which consumers (by index) got messages of each group; the group is the body's first letter."""
    found: dict[str, set[int]] = {}
    for index, consumer in enumerate(consumers):
        for body in consumer.bodies():
            found.setdefault(body[0], set()).add(index)
    return found


def test_a_group_goes_to_one_consumer_and_groups_are_shared_out() -> None:
    driver = server()
    session = session_of(driver)
    consumers = [session.consumer("queue:orders") for _ in range(2)]
    producer = session.producer("queue:orders")
    for _ in range(20):
        producer.send("a", "b", "c", "d", groups=["a", "b", "c", "d"])
    owners = bodies_of(consumers)
    assert all(len(who) == 1 for who in owners.values())
    for number in range(20):
        producer.send(f"a{number}", groups=["a"])
    (owner,) = owners["a"]
    assert consumers[owner].bodies() == [f"a{number}" for number in range(20)]
    assert consumers[1 - owner].take() == []


def test_messages_without_a_group_go_to_anybody() -> None:
    driver = server()
    session = session_of(driver)
    one, two = session.consumer("queue:orders"), session.consumer("queue:orders")
    producer = session.producer("queue:orders")
    for number in range(10):
        producer.send(f"g{number}", "free", groups=["g", None])
    assert len(one.take()) + len(two.take()) == 20


def test_order_in_a_group_holds_although_another_consumer_finds_its_messages() -> None:
    driver = server()
    session = session_of(driver)
    owner, other = session.consumer("queue:orders", messages=1), session.consumer("queue:orders", messages=0)
    producer = session.producer("queue:orders")
    producer.send("g0", groups=["g"])
    assert owner.bodies() == ["g0"]
    other.grant(100)
    for number in range(1, 6):
        producer.send(f"g{number}", f"free{number}", groups=["g", None])
    assert other.bodies() == [f"free{number}" for number in range(1, 6)]
    assert next(iter(queue_view(driver).consumers)).reserved_messages == 5
    owner.grant(100)
    assert owner.bodies() == [f"g{number}" for number in range(1, 6)]


def test_a_group_is_handed_over_in_order_when_its_consumer_leaves() -> None:
    driver = server()
    session = session_of(driver)
    owner, other = session.consumer("queue:orders", messages=2), session.consumer("queue:orders", messages=0)
    producer = session.producer("queue:orders")
    producer.send(*[f"g{number}" for number in range(4)], groups=["g"] * 4)
    producer.send("g4", "free", groups=["g", None])
    other.grant(100)
    assert owner.bodies() == ["g0", "g1"]
    assert other.bodies() == ["free"]
    owner.close()
    assert other.bodies() == ["g0", "g1", "g2", "g3", "g4"]


def test_what_was_reserved_keeps_its_priority_when_it_is_handed_over() -> None:
    driver = server()
    session = session_of(driver)
    owner, other = session.consumer("queue:orders", messages=1), session.consumer("queue:orders", messages=0)
    producer = session.producer("queue:orders")
    producer.send("g0", groups=["g"])
    other.grant(0)
    producer.send("low", groups=["g"], priority=1)
    producer.send("high", groups=["g"], priority=8)
    other.grant(100)
    owner.close()
    assert other.bodies() == ["high", "g0", "low"]


def test_the_reserve_of_a_group_is_bounded_and_nobody_passes_it_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.grouping.GROUP_RESERVED_MESSAGES_MAX", 3)
    driver = server()
    session = session_of(driver)
    owner, other = session.consumer("queue:orders", messages=1), session.consumer("queue:orders", messages=0)
    producer = session.producer("queue:orders")
    for number in range(10):
        producer.send(f"g{number}", groups=["g"])
    other.grant(100)
    assert other.take() == []
    assert next(iter(queue_view(driver).consumers)).reserved_messages == 3
    owner.grant(100)
    assert owner.bodies() == [f"g{number}" for number in range(10)], "also those that were not reserved"


def test_groups_are_bounded_and_one_that_is_idle_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.grouping.GROUPS_PER_VIEW_MAX", 2)
    driver = server()
    producer, consumer = ends(driver)
    producer.send("a", "b", "c", groups=["a", "b", "c"])
    messages = consumer.take()
    assert [message.body for message in messages] == [b"a", b"b"], "the third group waits for one of the others"
    consumer.ack(*messages)
    assert consumer.bodies() == ["c"]


def test_a_returned_message_goes_to_the_owner_of_its_group() -> None:
    driver = server()
    session = session_of(driver)
    owner, other = session.consumer("queue:orders"), session.consumer("queue:orders")
    producer = session.producer("queue:orders")
    producer.send("g0", groups=["g"])
    if not owner.messages:
        owner, other = other, owner
    owner.nack(*owner.take(), delay_ms=0)
    assert owner.bodies() == ["g0"]
    assert other.take() == []


def test_a_message_that_the_owner_does_not_want_goes_to_one_that_does() -> None:
    driver = server()
    session = session_of(driver)
    reds = session.consumer("queue:orders", selector="color = 'red'")
    blues = session.consumer("queue:orders", selector="color = 'blue'")
    producer = session.producer("queue:orders")
    producer.send("red", groups=["g"], properties={"color": ["red"]})
    producer.send("blue", groups=["g"], properties={"color": ["blue"]})
    assert (reds.bodies(), blues.bodies()) == (["red"], ["blue"])


def test_a_reserved_message_that_expires_is_not_delivered() -> None:
    driver = server()
    session = session_of(driver)
    owner, other = session.consumer("queue:orders", messages=1), session.consumer("queue:orders", messages=0)
    producer = session.producer("queue:orders")
    producer.send("g0", groups=["g"])
    producer.send("short", "long", groups=["g", "g"], expiry=[int(driver.clock.wall() * 1000) + 5_000, 0])
    other.grant(100)
    driver.advance(6)
    owner.grant(100)
    assert owner.bodies() == ["g0", "long"]
    assert session.consumer("queue:_DMQ").bodies() == ["short"]


def test_a_purge_takes_reserved_messages_too() -> None:
    driver = server()
    session = session_of(driver)
    owner, other = session.consumer("queue:orders", messages=1), session.consumer("queue:orders", messages=0)
    session.producer("queue:orders").send("g0", "g1", "g2", groups=["g"] * 3)
    other.grant(100)
    assert session.request("destination.purge", destination="queue:orders")["messages"] == 2
    owner.grant(100)
    assert (owner.bodies(), other.bodies()) == (["g0"], [])
    owner.ack(*owner.outstanding.values())
    assert driver.show("queue:orders")["messages"] == 0


def test_finding_an_idle_group_looks_at_busy_ones_once_and_at_no_locks() -> None:
    effort = []
    for count in (100, 1_000):
        view, busy, idle = View(0, 0, None), some_consumer(), some_consumer()
        idle.key = (b"i" * 16, 1)
        busy.groups = {f"busy{number}" for number in range(count)}
        idle.groups = {f"idle{number}" for number in range(10)}
        for owner in (busy, idle):
            view.groups |= dict.fromkeys(sorted(owner.groups or ()), owner)
        for start in range(count):
            view.locks.add(Lock(start, start + 1, busy.key, 1, 0.0))
        step = Step(30.0)
        before = step.rows
        assert _forget_idle_group(view, None, step), "the first look passes all busy ones"
        assert before - step.rows == count // 64, "and is paid for"
        effort.append(sum(steps_of(partial(_forget_idle_group, view, None, step)) for _ in range(9)))
        assert idle.groups == set() and set(view.groups) == busy.groups
        assert not _forget_idle_group(view, None, step)
    assert effort[0] == effort[1]


def test_who_leaves_gives_up_its_own_groups_without_a_look_at_all_others() -> None:
    effort = []
    for count in (10, 1_000):
        view, staying, leaving = View(0, 0, None), some_consumer(), some_consumer()
        staying.groups, leaving.groups = {f"s{number}" for number in range(count)}, {"l"}
        for owner in (staying, leaving):
            view.groups |= dict.fromkeys(sorted(owner.groups or ()), owner)
        effort.append(steps_of(partial(leave_groups, view, leaving)))
        assert set(view.groups) == staying.groups
    assert effort[0] == effort[1]
