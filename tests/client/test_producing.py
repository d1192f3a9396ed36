"""From bodies and options to batches, through a producer without a shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.client.dialogue import QUEUE, TOPIC, Dialogue, bodies_of

from tocsin.client.producing import ProducerBase, SendHandle, SendOptions, make_defaults
from tocsin.model import errors
from tocsin.model.batch import Block, BodyKind, Column
from tocsin.model.columns import column_values
from tocsin.model.destination import Destination
from tocsin.model.errors import MessageFormatError, MessageTooLarge
from tocsin.model.limits import CLIENT_BATCH_BYTES, CLIENT_BATCH_MESSAGES, HEADER_TEXT_BYTES_MAX
from tocsin.model.message import Message


def producer(destination: Destination | None = QUEUE, **defaults: Any) -> tuple[Dialogue, ProducerBase]:
    dialogue = Dialogue()
    dialogue.login()
    known: dict[str, Any] = {
        "delivery_mode": "persistent",
        "priority": 4,
        "ttl": None,
        "delay": None,
        "disable_message_id": False,
        "disable_timestamp": False,
    }
    made = ProducerBase(dialogue.session(), destination, make_defaults(**(known | defaults)))
    return dialogue, made


def finish(dialogue: Dialogue, steps: Any) -> Any:
    """Plays a server that confirms everything."""
    try:
        pending = next(steps)
        while True:
            confirm(dialogue)
            assert pending.is_done()
            pending = steps.send(pending.get())
    except StopIteration as end:
        return end.value


def confirm(dialogue: Dialogue) -> None:
    dialogue.answer()
    for lane in list(dialogue.core.lanes.values()):
        while lane.inflight:
            dialogue.confirm(lane.number, lane.inflight[-1].last_sequence)


def sent(dialogue: Dialogue) -> list[Block]:
    blocks = dialogue.published()
    return sorted(blocks, key=lambda block: block.first_sequence)


def test_send_gives_the_id_that_the_block_has() -> None:
    dialogue, made = producer()
    found = finish(dialogue, made._send_steps("text", None, {}))
    (block,) = sent(dialogue)
    assert found.endswith(f"-{block.first_sequence:x}")
    assert (block.body_kind, block.base_timestamp) == (BodyKind.TEXT, dialogue.wall)


def test_send_writes_its_headers_into_the_message() -> None:
    dialogue, made = producer(priority=7, ttl=60, delay=1)
    message = Message({"count": 1})

    found = finish(dialogue, made._send_steps(message, None, {"delivery_mode": "non_persistent"}))

    (block,) = sent(dialogue)
    assert (message.id, message.destination, message.priority) == (found, QUEUE, 7)
    assert (message.timestamp, message.expiration) == (dialogue.wall, dialogue.wall + 60_000)
    assert message.delivery_time == block.delivery_time == dialogue.wall + 1_000
    assert (message.delivery_mode, block.priority) == ("non_persistent", 7)
    assert column_values(block, Column.EXPIRY) == [dialogue.wall + 60_000]


def test_a_message_over_the_servers_limit_is_refused_before_it_is_sent() -> None:
    dialogue, made = producer()
    for body in (b"x" * 1_000_001, "é" * 500_001, ["x" * 1_000_001]):
        with pytest.raises(errors.MessageTooLarge, match="1,000,000"):
            finish(dialogue, made._send_steps(body, None, {}))
    with pytest.raises(errors.MessageTooLarge):
        finish(dialogue, made._send_many_steps([b"small", b"x" * 1_000_001], None, {}))
    assert not sent(dialogue)


def test_text_that_utf8_cannot_hold_spoils_no_batch() -> None:
    dialogue, made = producer()
    with pytest.raises(errors.MessageFormatError):
        finish(dialogue, made._send_steps("\ud800", None, {}))
    with pytest.raises(errors.MessageFormatError):
        finish(dialogue, made._send_many_steps(["good", "\ud800"], None, {}))
    assert finish(dialogue, made._send_steps("good", None, {})) is not None


def test_send_many_makes_a_small_batch_first_and_full_ones_after() -> None:
    dialogue, made = producer()
    bodies = [str(number).encode() for number in range(5 * CLIENT_BATCH_MESSAGES)]

    assert finish(dialogue, made._send_many_steps(iter(bodies), None, {})) == len(bodies)

    blocks = sent(dialogue)
    assert blocks[0].count == 1
    assert max(block.count for block in blocks) == CLIENT_BATCH_MESSAGES
    assert [body for block in blocks for body in bodies_of(block)] == bodies
    assert [block.first_sequence for block in blocks[1:]] == [
        block.first_sequence + block.count for block in blocks[:-1]
    ]


def test_send_many_bounds_batches_by_bytes() -> None:
    dialogue, made = producer()
    bodies = [b"x" * 20_000] * 200
    assert finish(dialogue, made._send_many_steps(bodies, None, {})) == 200
    assert max(len(block.data) for block in sent(dialogue)) < 2.5 * CLIENT_BATCH_BYTES


def test_send_many_takes_mixed_kinds_and_messages_in_order() -> None:
    dialogue, made = producer()
    message = Message("d", properties={"region": "EU"})
    assert finish(dialogue, made._send_many_steps(["a", b"b", {"c": 1}, message, None, "ü"], None, {})) == 6
    blocks = sent(dialogue)
    kinds = [block.body_kind for block in blocks for _ in range(block.count)]
    assert kinds == [
        BodyKind.TEXT,
        BodyKind.BYTES,
        BodyKind.MAP,
        BodyKind.TEXT,
        BodyKind.EMPTY,
        BodyKind.TEXT,
    ]
    assert message.id is not None
    assert message.destination == QUEUE


def test_send_many_gives_its_options_to_all() -> None:
    dialogue, made = producer()
    finish(dialogue, made._send_many_steps([b"a", b"b"], None, {"properties": {"region": "EU"}, "ttl": 1}))
    (block,) = sent(dialogue)
    assert column_values(block, Column.EXPIRY) == [dialogue.wall + 1_000] * 2
    assert [column.name for column in block.properties()] == ["region"]


@pytest.mark.parametrize("as_given", [str, str.encode])
def test_send_many_gives_each_message_its_key(as_given: Callable[[str], Any]) -> None:
    dialogue, made = producer()
    names = [f"key {number}" for number in range(96)]
    assert finish(dialogue, made._send_many_steps(names, None, {}, map(as_given, names))) == len(names)
    blocks = sent(dialogue)
    assert len(blocks) > 1
    assert [key for block in blocks for key in keys_of(block)] == [name.encode() for name in names]
    assert [body for block in blocks for body in bodies_of(block)] == [name.encode() for name in names]


@pytest.mark.parametrize(
    "bodies",
    [[b"a", b"b", b"c"], ["a", "b", "ü"], ["a", b"b", Message("c", key="its own")], [b"x" * CLIENT_BATCH_BYTES] * 3],
)
def test_keys_stay_with_their_messages_however_these_are_packed(bodies: list[Any]) -> None:
    dialogue, made = producer()
    assert finish(dialogue, made._send_many_steps(bodies, None, {}, [b"1", None, "3"])) == 3
    assert [key for block in sent(dialogue) for key in keys_of(block)] == [b"1", None, b"3"]


def keys_of(block: Block) -> list[Any]:
    return column_values(block, Column.KEY) or [None] * block.count


def test_messages_of_which_none_has_a_key() -> None:
    dialogue, made = producer()
    finish(dialogue, made._send_many_steps([b"a", b"b"], None, {}, [None, None]))
    (block,) = sent(dialogue)
    assert not block.has_column(Column.KEY)


@pytest.mark.parametrize(
    ("keys", "options", "what"),
    [
        (["one"], {}, "fewer keys than messages"),
        (["one", "two", "three"], {}, "more keys than messages; all 2 messages were sent"),
        (["one", 2], {}, "The header key is a string, not a int"),
        (["one", "x" * (HEADER_TEXT_BYTES_MAX + 1)], {}, "The header key has"),
        (["one", "two"], {"key": "all"}, "Either `key`, one for all messages, or `keys`"),
    ],
)
def test_keys_that_do_not_fit(keys: list[Any], options: SendOptions, what: str) -> None:
    dialogue, made = producer()
    with pytest.raises(MessageFormatError, match=what):
        finish(dialogue, made._send_many_steps([b"a", b"b"], None, options, keys))


def test_a_key_counts_as_part_of_its_message() -> None:
    dialogue, made = producer()
    most = dialogue.core.max_message_bytes
    assert finish(dialogue, made._send_many_steps([b"x" * (most - 3), b"y"], None, {}, [b"abc", b"abcd"])) == 2
    with pytest.raises(MessageTooLarge):
        finish(dialogue, made._send_many_steps([b"x" * (most - 3)], None, {}, [b"abcd"]))


def test_send_many_of_nothing() -> None:
    dialogue, made = producer()
    assert finish(dialogue, made._send_many_steps([], None, {})) == 0


def test_a_producer_without_a_destination_sends_to_any() -> None:
    dialogue, made = producer(None)
    for destination in (QUEUE, TOPIC, QUEUE):
        finish(dialogue, made._send_steps("x", destination, {}))
    assert [block.destination for block in dialogue.published()] == ["orders", "prices", "orders"]
    with pytest.raises(errors.InvalidDestination, match="name one"):
        finish(dialogue, made._send_steps("x", None, {}))


def test_a_producer_with_a_destination_sends_to_no_other() -> None:
    dialogue, made = producer()
    finish(dialogue, made._send_steps("x", QUEUE, {}))
    with pytest.raises(errors.IllegalState, match="queue:orders only"):
        finish(dialogue, made._send_steps("x", TOPIC, {}))


def test_an_unknown_option_is_a_mistake() -> None:
    dialogue, made = producer()
    with pytest.raises(TypeError, match="prioritty"):
        finish(dialogue, made._send_steps("x", None, {"prioritty": 3}))  # type: ignore[typeddict-unknown-key]


def test_a_closed_producer_sends_nothing() -> None:
    dialogue, made = producer()
    finish(dialogue, made._send_steps("x", None, {}))
    finish(dialogue, made._close_steps())
    with pytest.raises(errors.IllegalState, match="closed"):
        finish(dialogue, made._send_steps("x", None, {}))
    finish(dialogue, made._close_steps())


def test_callbacks_come_in_the_order_of_sends_whichever_lane_is_first() -> None:
    dialogue, made = producer(None)
    told: list[str] = []
    lanes = []
    for number, destination in enumerate((QUEUE, TOPIC, QUEUE)):
        lane = made._lane(destination)
        dialogue.answer()
        batch, row = made._put(lane, str(number), {})
        made._call_back(SendHandle(batch, row, str(number)), lambda message, error: told.append(message.body))
        lanes.append(lane)

    jobs = lanes[0].session.jobs
    dialogue.confirm(lanes[1].number, lanes[1].inflight[-1].last_sequence)
    assert not jobs
    confirm(dialogue)
    while jobs:
        jobs.popleft()()
    assert told == ["0", "1", "2"]


def test_a_handle_tells_what_became_of_the_message() -> None:
    dialogue, made = producer()
    steps = made._enqueue_steps("x", None, {})
    handle = finish(dialogue, steps)
    assert (handle.done, handle.error, handle.message_id) == (False, None, None)
    confirm(dialogue)
    assert handle.done
    assert handle.message_id is not None
    message = handle.sent_message()
    assert (message.body, message.id, message.destination) == ("x", handle.message_id, QUEUE)
