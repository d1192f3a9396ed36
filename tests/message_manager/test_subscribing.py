"""Topics: the four kinds of subscription and their rules (J78-J82), and where a new one begins."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.message_manager.dialogue import now_ms, server, session_of, state_of
from tests.message_manager.effort import steps_of

from tocsin.message_manager.subscribing import elsewhere
from tocsin.model.errors import IllegalState, InvalidDestination, InvalidSelector, ResourceExhausted, TocsinError

DURABLE: dict[str, Any] = {"subscription": "s", "durable": True}
SHARED: dict[str, Any] = {"subscription": "s", "shared": True}
SHARED_DURABLE: dict[str, Any] = {"subscription": "s", "durable": True, "shared": True}


def test_j78_unshared_non_durable_each_gets_everything_while_it_is_there() -> None:
    driver = server()
    session = session_of(driver)
    producer = session.producer("topic:news")
    producer.send("before")
    one, two = session.consumer("topic:news"), session.consumer("topic:news")
    producer.send("while")
    assert (one.bodies(), two.bodies()) == (["while"], ["while"])
    one.close()
    producer.send("after")
    assert (one.take(), two.bodies()) == ([], ["after"])
    assert len(state_of(driver, "topic:news").views) == 1


def test_j78_shared_non_durable_consumers_share_one_copy() -> None:
    driver = server()
    first, second = session_of(driver), session_of(driver)
    one, two = first.consumer("topic:news", **SHARED), second.consumer("topic:news", **SHARED)
    alone = first.consumer("topic:news")
    producer = first.producer("topic:news")
    for number in range(10):
        producer.send(str(number))
    assert len(one.messages) == len(two.messages) == 5
    assert sorted(one.bodies() + two.bodies()) == alone.bodies()
    one.close()
    two.close()
    producer.send("nobody")
    assert first.consumer("topic:news", **SHARED).take() == []


def test_j78_unshared_durable_gets_what_came_while_it_was_away() -> None:
    driver = server()
    session = session_of(driver, "me")
    session.consumer("topic:news", **DURABLE).close()
    session_of(driver).producer("topic:news").send("meanwhile")
    for _ in range(2):
        consumer = session.consumer("topic:news", **DURABLE)
        assert consumer.bodies() == ["meanwhile"]
        consumer.close()
    driver = driver.crash()
    consumer = session_of(driver, "me").consumer("topic:news", **DURABLE)
    messages = consumer.take()
    assert [message.body for message in messages] == [b"meanwhile"]
    consumer.ack(*messages)
    assert session_of(driver.crash(), "me").consumer("topic:news", **DURABLE).take() == []


def test_j78_an_unshared_durable_has_one_active_consumer() -> None:
    driver = server()
    session = session_of(driver, "me")
    session.consumer("topic:news", **DURABLE)
    with pytest.raises(IllegalState, match="active"):
        session.consumer("topic:news", **DURABLE)


def test_j78_shared_durable_consumers_share_also_over_connections() -> None:
    driver = server()
    one = session_of(driver).consumer("topic:news", **SHARED_DURABLE)
    two = session_of(driver).consumer("topic:news", **SHARED_DURABLE)
    producer = session_of(driver).producer("topic:news")
    for number in range(10):
        producer.send(str(number))
    assert len(one.take()) == len(two.take()) == 5


def test_j78_names_are_scoped_by_client_id() -> None:
    driver = server()
    first = session_of(driver, "a").consumer("topic:news", **SHARED_DURABLE)
    second = session_of(driver, "b").consumer("topic:news", **SHARED_DURABLE)
    session_of(driver).producer("topic:news").send("one")
    assert first.bodies() == second.bodies() == ["one"]


@pytest.mark.parametrize(
    ("terms", "client_id"),
    [
        ({"durable": True}, "me"),
        ({"shared": True}, "me"),
        ({"subscription": "s"}, "me"),
        (DURABLE, None),
    ],
)
def test_kinds_that_do_not_exist_are_refused(terms: dict[str, Any], client_id: str | None) -> None:
    with pytest.raises(IllegalState):
        session_of(server(), client_id).consumer("topic:news", **terms)


def test_a_queue_has_no_subscriptions() -> None:
    with pytest.raises(InvalidDestination):
        session_of(server(), "me").consumer("queue:orders", **DURABLE)


def test_a_bad_selector_is_refused_when_it_is_presented() -> None:
    driver = server()
    with pytest.raises(InvalidSelector):
        session_of(driver).consumer("topic:news", selector="color = ")
    assert state_of(driver, "topic:news").views == {}


# ---- J79, J80


@pytest.mark.parametrize("change", [{"selector": "n > 1"}, {"no_local": True}])
def test_j79_other_terms_while_it_is_inactive_make_it_anew(change: dict[str, Any]) -> None:
    driver = server()
    session = session_of(driver, "me")
    session.consumer("topic:news", **DURABLE).close()
    producer = session_of(driver).producer("topic:news")
    producer.send("old")
    consumer = session.consumer("topic:news", **DURABLE, **change)
    assert consumer.take() == []
    assert len(state_of(driver, "topic:news").views) == 1
    producer.send("new", properties={"n": [2]})
    assert consumer.bodies() == ["new"]


def test_j79_another_topic_while_it_is_inactive_moves_it() -> None:
    driver = server()
    session = session_of(driver, "me")
    session.consumer("topic:news", **DURABLE).close()
    session.consumer("topic:sport", **DURABLE)
    assert state_of(driver, "topic:news").views == {}
    driver = driver.crash()
    assert state_of(driver, "topic:news").views == {}
    assert len(state_of(driver, "topic:sport").views) == 1


@pytest.mark.parametrize("terms", [DURABLE, SHARED_DURABLE, SHARED])
def test_j79_other_terms_while_it_is_active_are_refused(terms: dict[str, Any]) -> None:
    session = session_of(server(), "me")
    session.consumer("topic:news", **terms)
    changes: list[dict[str, Any]] = [{"selector": "n > 1"}, {"no_local": True}]
    for change in changes:
        with pytest.raises(IllegalState):
            session.consumer("topic:news", **terms, **change)
    with pytest.raises(IllegalState):
        session.consumer("topic:sport", **terms)


def test_j80_shared_and_unshared_durable_do_not_share_a_name() -> None:
    for first, second in ((DURABLE, SHARED_DURABLE), (SHARED_DURABLE, DURABLE)):
        session = session_of(server(), "me")
        session.consumer("topic:news", **first).close()
        with pytest.raises(IllegalState, match="shared"):
            session.consumer("topic:news", **second)


def test_j80_durable_and_shared_non_durable_may_share_a_name() -> None:
    driver = server()
    session = session_of(driver, "me")
    durable, volatile = session.consumer("topic:news", **DURABLE), session.consumer("topic:news", **SHARED)
    session.producer("topic:news").send("one")
    assert durable.bodies() == volatile.bodies() == ["one"]


# ---- J81


def test_j81_unsubscribe_ends_it_and_lets_go_what_it_held() -> None:
    driver = server()
    client = driver.connect("me")
    session = client.session()
    session.consumer("topic:news", **DURABLE).close()
    session.producer("topic:news").send("one")
    client.request("subscription.delete", subscription="s", durable=True)
    assert (state_of(driver, "topic:news").views, state_of(driver, "topic:news").log.live_bytes) == ({}, 0)
    with pytest.raises(InvalidDestination):
        client.request("subscription.delete", subscription="s", durable=True)
    assert session_of(driver.crash(), "me").consumer("topic:news", **DURABLE).take() == []


def test_j81_it_is_refused_while_active() -> None:
    driver = server()
    client = driver.connect("me")
    consumer = client.session().consumer("topic:news", **DURABLE)
    with pytest.raises(IllegalState):
        client.request("subscription.delete", subscription="s", durable=True)
    consumer.close()
    client.request("subscription.delete", subscription="s", durable=True)


def test_j81_it_does_not_overtake_what_was_sent_before_it() -> None:
    """Acknowledge, close and unsubscribe sent in one go, without waiting for any answer."""
    driver = server()
    client = driver.connect("me")
    session = client.session()
    consumer = session.consumer("topic:news", **DURABLE)
    session.producer("topic:news").send("one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "settle", lambda: None)
        consumer.ack(*consumer.take())
        close = client.ask("consumer.close", session.number, consumer=consumer.number)
        delete = client.ask("subscription.delete", subscription="s", durable=True)
    driver.settle()
    assert client.answer(close) is not None
    assert client.answer(delete) is not None


def test_j81_a_shared_one_without_client_id_can_be_deleted_by_a_client_that_has_one() -> None:
    driver = server()
    session_of(driver).consumer("topic:news", **SHARED_DURABLE).close()
    driver.connect("me").request("subscription.delete", subscription="s", durable=True)
    assert state_of(driver, "topic:news").views == {}


# ---- J82


def test_j82_no_local_leaves_out_what_the_own_connection_sent() -> None:
    driver = server()
    session = session_of(driver)
    consumer = session.consumer("topic:news", no_local=True)
    session.producer("topic:news").send("mine")
    session_of(driver).producer("topic:news").send("theirs")
    assert consumer.bodies() == ["theirs"]


def test_j82_for_a_durable_one_it_is_the_client_id_that_counts() -> None:
    driver = server()
    client = driver.connect("me")
    client.session().consumer("topic:news", **DURABLE, no_local=True)
    client.goodbye()
    again = driver.connect("me").session()
    again.producer("topic:news").send("mine, from another connection")
    session_of(driver).producer("topic:news").send("theirs")
    driver = driver.crash()
    consumer = session_of(driver, "me").consumer("topic:news", **DURABLE, no_local=True)
    assert consumer.bodies() == ["theirs"]


# ---- selectors and starts


def test_j44_what_does_not_match_is_never_added() -> None:
    driver = server()
    session = session_of(driver, "me")
    session.consumer("topic:news", **DURABLE, selector="n > 1").close()
    session.producer("topic:news").send("1", "2", "3", properties={"n": [1, 2, 3]})
    (subscription,) = driver.show("topic:news")["subscriptions"]
    assert subscription["messages"] == 2
    assert session.consumer("topic:news", **DURABLE, selector="n > 1").bodies() == ["2", "3"]


def test_a_new_subscription_of_a_retained_topic_may_begin_in_the_past() -> None:
    driver = server()
    client = driver.connect("me")
    client.request("destination.create", destination="topic:news", retained=True)
    session = client.session()
    producer = session.producer("topic:news")
    producer.send("0", "1", properties={"n": [0, 1]})
    driver.advance(10)
    later = now_ms(driver)
    producer.send("2", "3", properties={"n": [2, 3]})
    assert session.consumer("topic:news", start={"at": "earliest"}).bodies() == ["0", "1", "2", "3"]
    assert session.consumer("topic:news", start={"offset": 1}).bodies() == ["1", "2", "3"]
    assert session.consumer("topic:news", start={"time_ms": later}).bodies() == ["2", "3"]
    assert session.consumer("topic:news", start={"at": "latest"}).take() == []
    assert session.consumer("topic:news", start={"at": "earliest"}, selector="n <> 1").bodies() == ["0", "2", "3"]
    assert session.consumer("topic:news", start={"at": "earliest"}, no_local=True).take() == []
    durable = session.consumer("topic:news", **DURABLE, start={"offset": 1}, selector="n <> 2")
    messages = durable.take()
    assert [message.body for message in messages] == [b"1", b"3"]
    durable.ack(*messages)
    driver = driver.crash()
    again = session_of(driver, "me").consumer("topic:news", **DURABLE, selector="n <> 2")
    assert again.take() == []


@pytest.mark.parametrize("start", [{"at": "yesterday"}, {"offset": "one"}, {"hour": 3}])
def test_an_unknown_start_is_refused(start: dict[str, Any]) -> None:
    client = server().connect()
    client.request("destination.create", destination="topic:news", retained=True)
    with pytest.raises(InvalidDestination):
        client.session().consumer("topic:news", start=start)


def test_the_past_of_a_topic_that_is_not_retained_can_not_be_read() -> None:
    with pytest.raises(InvalidDestination, match="retained"):
        session_of(server()).consumer("topic:news", start={"at": "earliest"})


def test_subscriptions_of_a_topic_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.subscribing.SUBSCRIPTIONS_PER_TOPIC_MAX", 2)
    session = session_of(server())
    session.consumer("topic:news")
    session.consumer("topic:news")
    with pytest.raises(ResourceExhausted):
        session.consumer("topic:news")


def test_a_new_durable_subscription_is_announced_when_it_is_durable() -> None:
    driver = server()
    client = driver.connect("me")
    session = client.session()
    with driver.slow_disk():
        request = client.ask(
            "consumer.open", session.number, consumer=1, destination="topic:news", mode="consume", messages=1,
            bytes=1, **DURABLE,
        )  # fmt: skip
        assert client.answer(request) is None
    assert client.answer(request) is not None


def test_a_refused_subscription_leaves_nothing_behind() -> None:
    driver = server()
    session = session_of(driver, "me")
    session.consumer("topic:news", **DURABLE)
    for _ in range(3):
        with pytest.raises(TocsinError):
            session.consumer("topic:news", **DURABLE)
    assert len(driver.manager.attachments.by_key) == 1
    assert driver.manager.attachments.opening == {}


def test_a_shared_subscription_is_found_by_its_name_however_many_destinations_there_are() -> None:
    effort = []
    for count in (5, 300):
        driver = server()
        for number in range(count):
            driver.connect().request("destination.create", destination=f"topic:t{number:04}")
        session = session_of(driver)
        session.consumer("topic:news", **SHARED)
        wanted = {"subscription": "s", "client_id": None, "durable": False, "topic": "other"}
        effort.append(steps_of(partial(elsewhere, driver.manager.directory, wanted)))
        effort.append(steps_of(partial(session.consumer, "topic:news", **SHARED)))
    assert effort[0] == effort[2]
    assert effort[3] < effort[1] + 50


def test_the_name_of_a_shared_subscription_is_free_when_its_last_consumer_or_its_topic_is_gone() -> None:
    driver = server()
    session, directory = session_of(driver), driver.manager.directory
    one, two = session.consumer("topic:news", **SHARED), session.consumer("topic:news", **SHARED)
    one.close()
    with pytest.raises(IllegalState):
        session.consumer("topic:other", **SHARED)
    two.close()
    assert not directory.volatile
    session.consumer("topic:other", **SHARED)
    assert set(directory.volatile) == {(None, "s")}
    directory.delete(state_of(driver, "topic:other"), driver.manager.ledger)
    assert not directory.volatile
