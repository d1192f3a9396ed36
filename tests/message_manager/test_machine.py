"""The machine as a whole: turns, room in the journal, what waits for what."""

from __future__ import annotations

import pytest
from tests.message_manager.dialogue import drain, ends, server, session_of, state_of

from tocsin.model.errors import InvalidDestination
from tocsin.testing.driver import Driver, Setup
from tocsin.wire.frames import Credit, FrameType, Outcome, Settle, control, write_credit, write_settle


def test_a_queue_that_found_the_journal_full_goes_on_when_it_has_room() -> None:
    """Others filled the journal: the one that could write nothing must be woken all the same."""
    driver = server()
    session = session_of(driver)
    busy, victim = session.producer("queue:busy"), session.producer("queue:victim")
    driver.storage.recovered.journal.pending_limit = 4_000
    with driver.slow_disk():
        for _ in range(10):
            busy.send(b"x" * 1_000)
        victim.send("one")
        assert (busy.confirmed, victim.confirmed) == (0, 0)
        assert driver.storage.recovered.journal.pending_bytes() < 8_000, "twice the limit is refused by the journal"
    assert (busy.confirmed, victim.confirmed) == (10, 1)


def test_requests_that_write_wait_for_room_and_keep_their_order() -> None:
    driver = server()
    client = driver.connect()
    driver.storage.recovered.journal.pending_limit = 1_000
    with driver.slow_disk():
        requests = [client.ask("destination.create", destination=f"queue:{number}") for number in range(100)]
        listing = client.ask("destination.list")
        assert driver.storage.recovered.journal.pending_bytes() < 2_000
    assert all(client.answer(request) is not None for request in requests)
    reply = client.answer(listing)
    assert reply is not None and len(reply["destinations"]) == 101


def congested(driver: Driver) -> bool:
    return driver.manager.congested


def test_it_says_when_more_waits_than_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.machine.INBOX_COMMANDS_MAX", 100)
    driver = server()
    producer, consumer = ends(driver)
    driver.storage.recovered.journal.pending_limit = 300
    assert congested(driver) is False
    with driver.slow_disk():
        producer.send(b"x" * 200)
        for number in range(1, 102):
            renewed = Settle(consumer.number, Outcome.RENEW, number, [])
            consumer.session.client.send(write_settle(1, renewed))
        assert congested(driver) is True
    assert congested(driver) is False
    assert len(consumer.take()) == 1


def test_credit_that_waits_takes_one_place_for_each_consumer() -> None:
    driver = server()
    producer, consumer = ends(driver)
    driver.storage.recovered.journal.pending_limit = 300
    with driver.slow_disk():
        producer.send(b"x" * 200)
        before = driver.manager.waiting
        for number in range(100_000, 105_000):
            consumer.session.client.send(write_credit(1, Credit(consumer.number, number, 1 << 20)))
        assert driver.manager.waiting == before + 1
    assert len(consumer.take()) == 1
    attached = driver.manager.attachments.by_key[consumer.session.producer_id, consumer.number]
    assert attached.consumer.messages_allowed == 104_999


def test_a_full_inbox_is_counted_too() -> None:
    driver = server()
    producer, _ = ends(driver)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver.manager, "run", lambda: False)
        patch.setattr(driver.manager, "_publish_at_once", driver.manager._enqueue)
        patch.setattr(driver, "settle", lambda: driver.turn())
        patch.setattr("tocsin.message_manager.machine.INBOX_COMMANDS_MAX", 1_000)
        for _ in range(1_001):
            producer.send("x")
        assert congested(driver) is True
    driver.settle()
    assert congested(driver) is False
    assert producer.confirmed == 1_001


def test_destinations_take_turns() -> None:
    """A hundred commands for each of three queues, all at once: none is done long before the others begin."""
    driver = server()
    session = session_of(driver)
    producers = [session.producer(f"queue:{number}") for number in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "settle", lambda: None)
        for producer in producers:
            for _ in range(200):
                producer.send("x")
    seen = set()
    while driver.turn() | driver.workers.settle():
        lengths = [len(state_of(driver, f"queue:{number}").inbox) for number in range(3)]
        seen.add(tuple(length // 64 for length in lengths))
    assert all(max(each) - min(each) <= 1 for each in seen)
    assert [producer.confirmed for producer in producers] == [200] * 3


def test_an_answer_to_a_closing_comes_when_everything_before_it_is_durable() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send("one")
    messages = consumer.take()
    with driver.slow_disk():
        consumer.ack(*messages)
        request = client.ask("session.close", session.number)
        assert client.answer(request) is None
    assert client.answer(request) is not None
    assert drain(driver.crash()) == []


def test_closing_a_session_that_used_nothing_is_answered() -> None:
    session_of(server()).close()


def test_a_session_that_leaves_many_destinations_is_answered_once() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    for number in range(5):
        session.consumer(f"queue:{number}")
    session.close()
    assert client.take(FrameType.FAILURE) == []
    assert driver.manager.sessions.known == {}
    assert all(not state_of(driver, f"queue:{number}").in_use() for number in range(5))


def test_a_temporary_destination_that_goes_with_its_connection_does_not_keep_its_sessions_waiting() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    temporary = client.request("temporary.create", kind="queue")["destination"]
    session.consumer(temporary)
    session.consumer("queue:orders")
    driver.hang_up(client)
    driver.advance(10)
    assert driver.broker.clients._awaited == {}
    assert not state_of(driver).in_use()


def test_publishing_to_nothing_is_refused() -> None:
    driver = server()
    producer, _ = ends(driver)
    producer.session.client.send(control(FrameType.PING, 0, {}))
    state = state_of(driver)
    driver.manager.directory.by_id.pop(state.id)
    producer.send("x")
    assert isinstance(producer.refused[0][2], InvalidDestination)


def test_a_deadline_is_known_while_something_is_due() -> None:
    driver = Driver(Setup())
    assert driver.manager.next_deadline() is None
    producer, consumer = ends(driver)
    producer.send("x")
    deadline = driver.manager.next_deadline()
    assert deadline is not None and deadline <= driver.clock.now() + 1.0, "a lease is being watched"
    consumer.ack(*consumer.take())
    driver.advance(2)
    deadline = driver.manager.next_deadline()
    assert deadline is not None and deadline > driver.clock.now() + 60
