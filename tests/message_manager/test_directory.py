from __future__ import annotations

from functools import partial

import pytest
from tests.message_manager.dialogue import server, session_of
from tests.message_manager.effort import steps_of

from tocsin.message_manager.destination import Options
from tocsin.model.destination import parse_destination
from tocsin.model.errors import InvalidDestination, ResourceExhausted


def test_one_name_is_one_destination_whatever_its_kind() -> None:
    session = session_of(server())
    session.producer("queue:orders")
    with pytest.raises(InvalidDestination, match="is a queue"):
        session.producer("topic:orders")


def test_using_a_destination_creates_it_except_in_the_names_of_the_system() -> None:
    driver = server()
    session = session_of(driver)
    session.consumer("queue:orders")
    assert driver.manager.directory.has("orders")
    for name in ("queue:_other", "queue:_TMP.0.0.0.0.1", "topic:_DMQ"):
        with pytest.raises(InvalidDestination):
            session.consumer(name)


def test_ids_are_never_used_again() -> None:
    driver = server()
    client = driver.connect()
    seen = set()
    for _ in range(3):
        client.request("destination.create", destination="queue:orders")
        seen.add(driver.manager.directory.find(parse_destination("queue:orders")).id)
        client.request("destination.delete", destination="queue:orders")
        driver = driver.crash()
        client = driver.connect()
    assert len(seen) == 3


def test_there_is_a_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.directory.DESTINATIONS_MAX", 2)
    session = session_of(server())
    session.producer("queue:one")
    with pytest.raises(ResourceExhausted):
        session.producer("queue:two")


def test_the_dead_message_queue_is_always_there_and_has_no_limit() -> None:
    driver = server(limit=3)
    state = driver.manager.directory.find(parse_destination("queue:_DMQ"))
    assert state.options == Options(redelivery_limit=0)
    again = driver.crash().manager.directory.find(parse_destination("queue:_DMQ"))
    assert again.id == state.id


def test_deleting_a_topic_ends_its_durable_subscriptions() -> None:
    driver = server()
    client = driver.connect("me")
    session = client.session()
    session.consumer("topic:news", subscription="s", durable=True).close()
    client.request("destination.delete", destination="topic:news")
    assert driver.manager.directory.durable == {}
    session.consumer("topic:sport", subscription="s", durable=True)
    assert len(driver.crash().manager.directory.durable) == 1


def test_a_page_is_found_without_a_look_at_names_that_are_not_on_it() -> None:
    effort = []
    for count in (10, 400):
        driver = server()
        for number in range(count):
            driver.connect().request("destination.create", destination=f"queue:m{number:04}")
        page = driver.manager.directory.page
        effort.append(
            [steps_of(partial(page, *asked, 5)) for asked in (("zzz", ""), ("a", ""), ("m", ""), ("m", "m0"))]
        )
        assert page("zzz", "", 5) == ([], False)
        found, more = page("m000", "m0002", 5)
        assert ([state.address.name for state in found], more) == ([f"m{number:04}" for number in range(3, 8)], True)
    assert effort[0] == effort[1]
