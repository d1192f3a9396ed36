"""Blocks from messages: columns only where they are needed, and headers written anew."""

from __future__ import annotations

from tests.client.dialogue import CONNECTION, PRODUCER, QUEUE, bodies_of

from tocsin.client.batching import Batch, BatchKey, Stamp, whole_batch
from tocsin.model.batch import FLAG_GROUPS, FLAG_NO_MESSAGE_ID, BodyKind, Column, DeliveryMode, check_block
from tocsin.model.columns import column_values, raw_values
from tocsin.model.limits import CLIENT_BATCH_BYTES, CLIENT_BATCH_MESSAGES, CLIENT_COLUMNS_MAX
from tocsin.model.message import Message
from tocsin.model.values import Type

KEY = BatchKey(BodyKind.TEXT, DeliveryMode.PERSISTENT, 4, 0, 0, True)
STAMP = Stamp(CONNECTION, PRODUCER, 3)
EXPIRY = (Column.EXPIRY, Type.LONG, "")
REGION = (Column.PROPERTY, Type.STRING, "region")


def test_a_plain_batch_has_a_body_column_alone() -> None:
    batch = Batch(KEY)
    for body in ("a", "bc", "größe"):
        batch.add(body, len(body), 1_000, None)

    block = check_block(batch.seal(QUEUE, STAMP, 5, 4))

    assert [entry[0] for entry in block.directory()] == [Column.BODY]
    assert [body.decode() for body in bodies_of(block)] == ["a", "bc", "größe"]
    assert (block.connection_id, block.producer_id, block.producer_epoch) == STAMP
    assert (block.first_sequence, block.unconfirmed_from, block.base_timestamp) == (5, 4, 1_000)
    assert batch.last_sequence == 7


def test_timestamps_have_a_column_when_they_differ() -> None:
    batch = Batch(KEY)
    for time in (1_005, 1_000, 1_009):
        batch.add("x", 1, time, None)

    block = check_block(batch.seal(QUEUE, STAMP, 1, 1))

    assert block.base_timestamp == 1_000
    assert column_values(block, Column.TIMESTAMP) == [5, 0, 9]


def test_timestamps_can_be_off() -> None:
    batch = Batch(KEY._replace(timed=False))
    batch.add("x", 1, 1_000, None)
    batch.add("y", 1, 2_000, None)
    block = check_block(batch.seal(QUEUE, STAMP, 1, 1))
    assert block.base_timestamp == 0
    assert not block.has_column(Column.TIMESTAMP)


def test_headers_and_properties_of_some_rows() -> None:
    batch = Batch(KEY)
    batch.add("a", 1, 1, None)
    batch.add("b", 1, 1, {REGION: "EU", EXPIRY: 900, (Column.GROUP_ID, Type.STRING, ""): "g"})
    batch.add("c", 1, 1, {EXPIRY: 800})

    block = check_block(batch.seal(QUEUE, STAMP, 1, 1))

    assert column_values(block, Column.EXPIRY) == [0, 900, 800]
    assert block.earliest_expiry == 800
    assert column_values(block, Column.GROUP_ID) == [None, "g", None]
    assert block.flags & FLAG_GROUPS
    (region,) = block.properties("region")
    assert raw_values(region, 3) == [None, "EU", None]


def test_what_all_rows_share_is_a_column_too() -> None:
    batch = whole_batch(KEY, ["a", "b"], 2, 7, {REGION: "EU", EXPIRY: 99})
    block = check_block(batch.seal(QUEUE, STAMP, 1, 1))
    (region,) = block.properties()
    assert raw_values(region, 2) == ["EU", "EU"]
    assert (block.earliest_expiry, block.base_timestamp) == (99, 7)
    assert not batch.takes(KEY, None)


def test_a_batch_takes_what_fits() -> None:
    batch = Batch(KEY)
    assert batch.takes(KEY, None)
    assert not batch.takes(KEY._replace(priority=5), None)
    many = {(Column.PROPERTY, Type.STRING, f"p{number}"): "x" for number in range(CLIENT_COLUMNS_MAX)}
    assert batch.takes(KEY, many)
    batch.add("x", 1, 1, many)
    assert batch.takes(KEY, {(Column.PROPERTY, Type.STRING, "p0"): "y"})
    assert not batch.takes(KEY, {(Column.PROPERTY, Type.STRING, "another"): "y"})


def test_a_batch_is_closed_by_messages_or_bytes() -> None:
    by_count, by_size = Batch(KEY), Batch(KEY)
    for _ in range(CLIENT_BATCH_MESSAGES):
        assert by_count.takes(KEY, None)
        by_count.add("x", 1, 1, None)
    assert not by_count.takes(KEY, None)
    by_size.add("x" * CLIENT_BATCH_BYTES, CLIENT_BATCH_BYTES, 1, None)
    assert not by_size.takes(KEY, None)


def test_a_header_is_written_anew_and_the_checksum_holds() -> None:
    message = Message("x")
    batch = Batch(KEY)
    batch.senders.append((batch.add("x", 1, 1, {REGION: "EU"}), message))
    batch.seal(QUEUE, STAMP, 5, 5)
    first_id = message.id

    block = check_block(batch.restamp(Stamp(b"c" * 16, PRODUCER, 4), 9, 8))

    assert (block.connection_id, block.producer_id, block.producer_epoch) == (b"c" * 16, PRODUCER, 4)
    assert (block.first_sequence, block.unconfirmed_from) == (9, 8)
    assert [entry[2] for entry in block.directory()] == ["", "region"]
    assert message.id == batch.message_id(0) != first_id


def test_ids_can_be_off() -> None:
    batch = Batch(KEY._replace(flags=FLAG_NO_MESSAGE_ID))
    batch.add("x", 1, 1, None)
    assert batch.message_id(0) is None
    batch.seal(QUEUE, STAMP, 1, 1)
    assert batch.message_id(0) is None
