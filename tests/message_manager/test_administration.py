"""Create, delete, purge, list, show, offsets; and requests that make no sense."""

from __future__ import annotations

from typing import Any

import pytest
from tests.message_manager.dialogue import NOTHING_CACHED, drain, ends, now_ms, server, session_of, state_of

from tocsin.message_manager.view import View
from tocsin.model.errors import IllegalState, InvalidDestination, ProtocolError
from tocsin.model.ranges import Range
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient


def names(client: ScriptedClient, **fields: Any) -> list[str]:
    return [each["name"] for each in client.request("destination.list", **fields)["destinations"]]


# ---- create and delete


def test_creating_twice_is_fine_with_the_same_options_and_refused_with_others() -> None:
    client = server().connect()
    wish: dict[str, Any] = {"destination": "topic:news", "retained": True, "max_bytes": 1000}
    assert client.request("destination.create", **wish)["created"] is True
    assert client.request("destination.create", **wish)["created"] is False
    with pytest.raises(IllegalState, match="other options"):
        client.request("destination.create", destination="topic:news")
    with pytest.raises(InvalidDestination):
        client.request("destination.create", destination="queue:news")


@pytest.mark.parametrize(
    "fields",
    [
        {"destination": "queue:_mine"},
        {"destination": "queue:_TMP.mine"},
        {"destination": "queue:_DMQ"},
        {"destination": "queue:two words"},
        {"destination": "queue:orders", "retained": True},
        {"destination": "topic:news", "max_bytes": 10},
        {"destination": "heap:orders"},
        {"destination": "orders"},
    ],
)
def test_what_can_not_be_created(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidDestination):
        server().connect().request("destination.create", **fields)


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("destination.create", {"destination": "queue:q", "redelivery_limit": "ten"}),
        ("destination.create", {"destination": "queue:q", "redelivery_limit": -1}),
        ("destination.create", {"destination": "queue:q", "backoff_ms": 1 << 62}),
        ("destination.create", {"destination": "queue:q", "backoff_ms": True}),
        ("destination.create", {"destination": "topic:t", "retained": "yes"}),
        ("destination.create", {"destination": 7}),
        ("destination.create", {}),
        ("destination.list", {"limit": "many"}),
        ("subscription.delete", {}),
        ("subscription.delete", {"subscription": 3}),
        ("offset.at", {"destination": "topic:t", "time_ms": "noon"}),
        ("nonsense", {}),
    ],
)
def test_fields_of_the_wrong_type_are_refused_and_the_server_goes_on(operation: str, fields: dict[str, Any]) -> None:
    driver = server()
    client = driver.connect()
    if operation == "offset.at":
        client.request("destination.create", destination="topic:t", retained=True)
    with pytest.raises((ProtocolError, InvalidDestination)):
        client.request(operation, **fields)
    assert client.request("destination.list")["more"] is False


def test_created_and_deleted_is_durable() -> None:
    driver = server()
    client = driver.connect()
    for name in ("one", "two"):
        client.request("destination.create", destination=f"queue:{name}", redelivery_limit=7)
    client.request("destination.delete", destination="queue:one")
    driver = driver.crash()
    assert names(driver.connect()) == ["_DMQ", "two"]
    assert driver.show("queue:two")["redelivery_limit"] == 7


def test_an_answer_waits_for_the_disk() -> None:
    driver = server()
    client = driver.connect()
    with driver.slow_disk():
        request = client.ask("destination.create", destination="queue:one")
        assert client.answer(request) is None
    assert client.answer(request) is not None


def test_deleting_is_refused_while_there_are_consumers_and_for_system_destinations() -> None:
    driver = server()
    client = driver.connect()
    consumer = client.session().consumer("queue:orders")
    with pytest.raises(IllegalState):
        client.request("destination.delete", destination="queue:orders")
    with pytest.raises(InvalidDestination):
        client.request("destination.delete", destination="queue:_DMQ")
    with pytest.raises(InvalidDestination):
        client.request("destination.delete", destination="queue:unknown")
    consumer.close()
    client.request("destination.delete", destination="queue:orders")


def test_a_producer_of_a_deleted_queue_is_refused_and_a_new_queue_begins_anew() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    producer = session.producer("queue:orders")
    producer.send("old")
    client.request("destination.delete", destination="queue:orders")
    producer.send("too late")
    assert isinstance(producer.refused[0][2], InvalidDestination)
    session.producer("queue:orders").send("new")
    assert drain(driver) == ["new"]
    driver = driver.crash()
    assert state_of(driver).log.next_offset == 1


def test_whoever_waits_in_the_inbox_of_a_deleted_destination_gets_an_answer() -> None:
    driver = server()
    client = driver.connect()
    session, leaving = client.session(1), client.session(2)
    producer = session.producer("queue:orders")
    leaving.producer("queue:orders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "settle", lambda: None)
        delete = client.ask("destination.delete", destination="queue:orders")
        producer.send("too late")
        opening = client.ask(
            "consumer.open", session.number, consumer=9, destination="queue:orders", mode="consume", messages=1, bytes=1
        )
        close = client.ask("session.close", leaving.number)
    driver.settle()
    assert client.answer(delete) is not None
    assert isinstance(producer.refused[0][2], InvalidDestination)
    with pytest.raises(InvalidDestination):
        client.answer(opening)
    assert client.answer(close) is not None


def test_deleting_lets_everything_go_also_what_is_delayed() -> None:
    driver = server()
    client = driver.connect()
    producer = client.session().producer("queue:orders")
    producer.send("a")
    producer.send("later", due=now_ms(driver) + 60_000)
    client.request("destination.delete", destination="queue:orders")
    assert sum(index.live_records for index in driver.storage.recovered.journal._segments) == 0
    driver.advance(61)


def test_the_files_of_a_deleted_retained_topic_go_when_the_record_is_durable_and_at_the_next_start_at_the_latest() -> (
    None
):
    driver = Driver(Setup(segment_bytes=16 * 1024))
    client = driver.connect()
    client.request("destination.create", destination="topic:news", retained=True)
    producer = client.session().producer("topic:news")
    for _ in range(40):
        producer.send(b"x" * 1000)
    stream = state_of(driver, "topic:news").id
    assert stream in driver.storage.streams.streams()
    with driver.slow_disk():
        client.ask("destination.delete", destination="topic:news")
        assert stream in driver.storage.streams.streams()
    assert stream not in driver.storage.streams.streams()
    assert driver.disk.list(f"streams/{stream}") == ()


def test_files_that_outlived_their_topic_go_at_the_next_start() -> None:
    driver = Driver(Setup(segment_bytes=16 * 1024))
    client = driver.connect()
    client.request("destination.create", destination="topic:news", retained=True)
    producer = client.session().producer("topic:news")
    for _ in range(40):
        producer.send(b"x" * 1000)
    stream = state_of(driver, "topic:news").id
    driver.manager.take_drops = list  # type: ignore[method-assign]
    client.request("destination.delete", destination="topic:news")
    assert driver.disk.list(f"streams/{stream}") != ()
    driver = driver.kill()
    assert driver.disk.list(f"streams/{stream}") == ()


# ---- temporary destinations


def test_a_temporary_destination_dies_with_its_connection() -> None:
    driver = server()
    client = driver.connect()
    temporary = client.request("temporary.create", kind="queue")["destination"]
    stranger = session_of(driver)
    producer = stranger.producer(temporary)
    consumer = client.session().consumer(temporary)
    client.goodbye()
    assert names(driver.connect(), prefix="_TMP") == []
    producer.send("nobody")
    assert isinstance(producer.refused[0][2], InvalidDestination)
    assert consumer.take() == []
    assert driver.broker.clients._awaited == {}, "nobody waits for an answer that never comes"


def test_a_temporary_destination_survives_a_short_break_and_no_restart() -> None:
    driver = server()
    client = driver.connect()
    client.session()
    client.request("temporary.create", kind="topic")
    driver.hang_up(client)
    assert len(names(driver.connect(), prefix="_TMP")) == 1
    assert names(driver.crash().connect(), prefix="_TMP") == []
    driver.advance(10)
    assert names(driver.connect(), prefix="_TMP") == []


def test_a_consumer_of_a_temporary_queue_that_goes_is_told() -> None:
    driver = server()
    client = driver.connect()
    temporary = client.request("temporary.create", kind="queue")["destination"]
    session = client.session()
    consumer = session.consumer(temporary)
    with pytest.raises(IllegalState):
        client.request("destination.delete", destination=temporary)
    consumer.close()
    client.request("destination.delete", destination=temporary)


def test_nobody_deletes_the_temporary_queue_of_another() -> None:
    driver = server()
    temporary = driver.connect().request("temporary.create", kind="queue")["destination"]
    with pytest.raises(InvalidDestination):
        driver.connect().request("destination.delete", destination=temporary)


# ---- purge


def test_a_purge_drops_everything_that_is_not_in_flight() -> None:
    driver = server(limit=5)
    session = session_of(driver)
    consumer = session.consumer("queue:orders", messages=3)
    producer = session.producer("queue:orders")
    producer.send(*"abcdef")
    producer.send("later", due=now_ms(driver) + 1_000)
    a, b, c = consumer.take()
    consumer.nack(b, delay_ms=60_000)
    consumer.release(c)
    assert session.request("destination.purge", destination="queue:orders")["messages"] == 5
    consumer.grant(100)
    consumer.ack(a)
    driver.advance(2)
    assert consumer.bodies() == ["later"]
    driver = driver.crash()
    assert drain(driver) == ["later"]


def test_a_purge_takes_what_is_about_to_be_buried() -> None:
    driver = server(limit=1)
    producer, consumer = ends(driver)
    producer.send("a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tocsin.message_manager.machine.process_removals", lambda *_: False)
        consumer.nack(*consumer.take())
        assert driver.connect().request("destination.purge", destination="queue:orders")["messages"] == 1
    driver.advance(2)
    assert (drain(driver), drain(driver, "queue:_DMQ")) == ([], [])
    assert state_of(driver).log.live_bytes == 0


def test_a_purge_of_a_topic_empties_its_subscriptions() -> None:
    driver = server()
    client = driver.connect("me")
    session = client.session()
    consumer = session.consumer("topic:news", subscription="s", durable=True, messages=0)
    session.producer("topic:news").send("a", "b")
    assert client.request("destination.purge", destination="topic:news")["messages"] == 2
    consumer.grant(10)
    assert consumer.take() == []


def test_a_purge_of_a_retained_topic_drops_its_past_and_its_files() -> None:
    driver = Driver(Setup(segment_bytes=16 * 1024))
    client = driver.connect()
    client.request("destination.create", destination="topic:news", retained=True)
    session = client.session()
    producer = session.producer("topic:news")
    for _ in range(40):
        producer.send(b"x" * 1000)
    stream = state_of(driver, "topic:news").id
    before = len(driver.disk.list(f"streams/{stream}"))
    assert client.request("destination.purge", destination="topic:news")["messages"] == 40
    assert before > len(driver.disk.list(f"streams/{stream}"))
    producer.send("new")
    for _ in range(2):
        reader = session_of(driver).consumer("topic:news", mode="replay", start={"at": "earliest"})
        assert [(message.offset, message.body) for message in reader.take()] == [(40, b"new")]
        driver = driver.crash()


def test_a_purge_of_cold_messages_reads_none_of_them() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    client = driver.connect()
    producer = client.session().producer("queue:orders")
    for _ in range(20):
        producer.send("x")
    driver.storage._reads.begin = lambda wanted: pytest.fail(f"{wanted} is not to be read")  # type: ignore[method-assign]
    assert client.request("destination.purge", destination="queue:orders")["messages"] == 20


# ---- list, show, offsets


def test_the_list_comes_in_name_order_page_by_page() -> None:
    client = server().connect()
    for name in ("b", "a", "ca", "cb"):
        client.request("destination.create", destination=f"queue:{name}")
    first = client.request("destination.list", limit=3)
    assert ([each["name"] for each in first["destinations"]], first["more"]) == (["_DMQ", "a", "b"], True)
    second = client.request("destination.list", limit=3, after="b")
    assert ([each["name"] for each in second["destinations"]], second["more"]) == (["ca", "cb"], False)
    assert names(client, prefix="c") == ["ca", "cb"]


def test_show_counts_what_happens() -> None:
    driver = server(limit=1)
    session = session_of(driver, "me")
    queue = session.consumer("queue:orders", messages=2)
    session.producer("queue:orders").send("a", "b", "c")
    queue.ack(queue.messages[0])
    details = driver.show("queue:orders")
    counted = ("kind", "messages", "in_flight", "published", "delivered", "acknowledged", "consumers", "producers")
    assert {name: details[name] for name in counted} == {
        "kind": "queue", "messages": 2, "in_flight": 1, "published": 3, "delivered": 2, "acknowledged": 1,
        "consumers": 1, "producers": 1,
    }  # fmt: skip
    session.consumer("topic:news", subscription="s", durable=True, selector="n > 1")
    (subscription,) = driver.show("topic:news")["subscriptions"]
    assert (subscription["name"], subscription["client_id"], subscription["selector"]) == ("s", "me", "n > 1")


def test_offsets_by_range_and_by_time() -> None:
    driver = server()
    client = driver.connect()
    client.request("destination.create", destination="topic:news", retained=True)
    producer = client.session().producer("topic:news")
    begin = now_ms(driver)
    for _ in range(3):
        producer.send("a", "b")
        driver.advance(10)
    found = client.request("offset.range", destination="topic:news")
    assert (found["earliest"], found["latest"]) == (0, 6)
    at = [
        client.request("offset.at", destination="topic:news", time_ms=begin + seconds * 1000)["offset"]
        for seconds in (-5, 0, 1, 10, 20, 21, 999)
    ]
    assert at == [0, 0, 2, 2, 4, 6, 6]


def test_dead_messages_that_are_named_very_often_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = server(limit=1)
    producer, consumer = ends(driver)
    producer.send("one", "two")
    consumer.nack(*consumer.take())
    looks: list[Range] = []
    free = View.free

    def look(view: View, start: int, end: int) -> list[Range]:
        looks.append((start, end))
        return free(view, start, end)

    monkeypatch.setattr(View, "free", look)
    client = driver.connect()
    with driver.slow_disk():
        assert client.request("dead.resend", offsets=[0, 1 << 50] * 1_000)["messages"] == 2
        assert len(looks) < 5
