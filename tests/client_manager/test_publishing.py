"""The one full check of a block at the edge, and what producers may have on the way."""

from __future__ import annotations

import pytest

from tocsin.client_manager import publishing
from tocsin.client_manager.machine import Settings
from tocsin.message_manager.destination import Options
from tocsin.message_manager.machine import Settings as ManagerSettings
from tocsin.model.batch import BatchHeader, BodyKind, Column, encode_block
from tocsin.model.columns import bytes_column
from tocsin.model.destination import Kind
from tocsin.model.errors import AccessDenied, MessageTooLarge, ProtocolError, TocsinError, from_code
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.testing.scripted_session import ScriptedProducer
from tocsin.wire.frames import FrameType, Publish, write_publish


def producer_of(driver: Driver) -> ScriptedProducer:
    return driver.connect().session().producer("queue:orders")


def ending(client: ScriptedClient) -> TocsinError:
    """Why the server ended the connection."""
    assert not client.open
    fields = client.take(FrameType.FAILURE)[-1].fields()
    return from_code(fields["code"], fields["text"])


def block(producer: ScriptedProducer, **changes: object) -> bytes:
    fields: dict[str, object] = {
        "destination": "orders", "destination_kind": Kind.QUEUE, "count": 1, "body_kind": BodyKind.BYTES,
        "connection_id": producer.session.client.identity, "producer_id": producer.session.producer_id,
    }  # fmt: skip
    return encode_block(BatchHeader(**(fields | changes)), [bytes_column(Column.BODY, [b"x"])])  # type: ignore[arg-type]


def test_an_honest_block_passes() -> None:
    producer = producer_of(Driver())
    producer.resend(block(producer))
    assert producer.confirmed == 1


def test_a_rehearsal_checks_what_came_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = producer_of(Driver())
    data = block(producer)
    frame = b"".join(write_publish(producer.session.number, Publish(producer.number, data)))
    checked: list[bytes] = []
    monkeypatch.setattr(publishing, "check_block", lambda found: checked.append(bytes(found)))
    publishing.rehearse(frame)
    assert checked == [data]
    for cut_off in (frame[:-1], frame[1:], frame[len(frame) // 2 :], b""):
        publishing.rehearse(cut_off)
    assert checked == [data]
    monkeypatch.undo()
    producer.resend(data)
    assert producer.confirmed == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"producer_id": b"another producer"},
        {"connection_id": b"another one here"},
        {"destination": "elsewhere"},
        {"destination_kind": Kind.TOPIC},
        {"count": 0},
        {"count": 7},
        {"priority": 10},
        {"codec": 1},
        {"body_kind": BodyKind.EMPTY},
    ],
)
def test_a_forged_or_broken_block_ends_the_connection(changes: dict[str, object]) -> None:
    driver = Driver()
    producer = producer_of(driver)
    client = producer.session.client
    assert isinstance(client, ScriptedClient)
    producer.resend(block(producer, **changes))
    assert isinstance(ending(client), ProtocolError)
    assert driver.show("queue:orders")["messages"] == 0


def test_a_flipped_bit_is_noticed() -> None:
    driver = Driver()
    producer = producer_of(driver)
    data = bytearray(block(producer))
    data[-1] ^= 1
    client = producer.session.client
    assert isinstance(client, ScriptedClient)
    producer.resend(bytes(data))
    assert isinstance(ending(client), ProtocolError)


def test_a_producer_that_is_not_open_ends_the_connection() -> None:
    producer = producer_of(Driver())
    client = producer.session.client
    assert isinstance(client, ScriptedClient)
    data = block(producer)
    producer.close()
    producer.resend(data)
    assert isinstance(ending(client), ProtocolError)


def test_a_message_that_is_too_large_is_refused_and_smaller_ones_go_on() -> None:
    driver = Driver(Setup(clients=Settings(message_bytes_max=1000, heartbeat=1e9)))
    producer = producer_of(driver)
    producer.send(b"x" * 1001)
    ((first, last, error),) = producer.refused
    assert (first, last, type(error)) == (1, 1, MessageTooLarge)
    producer.send(b"x" * 1000, sequence=1)
    producer.send(*[b"x" * 500] * 5)
    assert producer.confirmed == 6, "a batch may be larger than the largest message"


def test_what_waits_for_the_disk_is_bounded_by_credit() -> None:
    driver = Driver(Setup(segment_bytes=64 * 1024 * 1024))
    producer = producer_of(driver)
    client = producer.session.client
    assert isinstance(client, ScriptedClient)
    size = producer.credit // 4
    with driver.slow_disk():
        for _ in range(3):
            producer.send(b"x" * size)
        assert client.open
        producer.send(b"x" * (size * 2))
        assert isinstance(ending(client), ProtocolError)


def test_each_confirmation_gives_new_credit() -> None:
    producer = producer_of(Driver())
    before = producer.credit
    producer.send(b"x" * 10_000)
    assert producer.credit > before + 10_000


def test_many_confirmations_of_one_turn_are_one_frame() -> None:
    driver = Driver()
    producer = producer_of(driver)
    client = producer.session.client
    assert isinstance(client, ScriptedClient)
    with driver.slow_disk():
        for number in range(20):
            producer.send(str(number))
    assert len(client.take(FrameType.CONFIRM)) == 2, "the first commit had one batch, the second all others"
    assert producer.confirmed == 20


def test_nobody_publishes_to_the_dead() -> None:
    with pytest.raises(AccessDenied):
        Driver().connect().session().producer("queue:_DMQ")


@pytest.mark.parametrize("name", ["JMSXDeliveryCount", "JMSXUserID", "JMSXGroupID", "JMSXNew", "JMSPriority", "JMS"])
def test_a_property_that_only_servers_set_ends_that_send(name: str) -> None:
    driver = Driver()
    producer = producer_of(driver)
    client = producer.session.client
    assert isinstance(client, ScriptedClient)
    last = producer.send("forged", properties={name: ["x"]})
    refused = client.take(FrameType.REFUSED)[-1].fields()
    assert (refused["code"], refused["first"], refused["last"]) == (AccessDenied.code, last, last)
    assert name in refused["text"] and client.open
    producer.next_sequence = last
    producer.send("honest", properties={"colour": ["x"], "JMS_acme": ["y"]}, groups=["group"])
    assert producer.confirmed == last
    assert driver.show("queue:orders")["messages"] == 1


def test_what_a_client_says_of_a_message_is_no_note_of_a_dead_one() -> None:
    driver = Driver(Setup(manager=ManagerSettings(defaults=Options(redelivery_limit=1))))
    session = driver.connect().session()
    notes = {"JMS_tocsin_origin": ["queue:others"], "JMS_tocsin_subscription": ["s"], "JMS_tocsin_offset": ["7"]}
    session.producer("queue:orders").send("one", properties=notes)
    consumer = session.consumer("queue:orders")
    consumer.nack(*consumer.take(), reason="broken")
    (dead,) = session.consumer("queue:_DMQ").take()
    assert dead.properties == {
        "JMS_tocsin_origin": "queue:orders", "JMS_tocsin_reason": "broken", "JMS_tocsin_attempts": 1,
    }  # fmt: skip
