"""A stage as the client fills it: whole blocks, many in flight, and a receipt when all is durable."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.client.dialogue import TOPIC, Dialogue, bodies_of, drive
from tests.client.test_producing import confirm

from tocsin.client.pending import Steps
from tocsin.client.staging import (
    ColumnsBatch,
    StageBase,
    StagedColumns,
    StageReceipt,
    check_content,
    commit_steps,
    drop_steps,
    last_steps,
)
from tocsin.model.batch import FLAG_GROUPS, BodyKind, Column, DeliveryMode
from tocsin.model.columns import bytes_column, value_column
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import IllegalState, MessageFormatError, MessageTooLarge, ProducerExpired
from tocsin.model.limits import BATCH_MESSAGES_MAX, BLOCK_BYTES_MAX, STAGE_WAITING_BYTES_MAX
from tocsin.model.values import Type
from tocsin.wire.frames import FrameType, control

STAGE = bytes(range(16))
RECEIPT = StageReceipt(TOPIC, STAGE, 3, 30)


def content(*bodies: bytes, **more: Any) -> StagedColumns:
    return StagedColumns(len(bodies), BodyKind.BYTES, [bytes_column(Column.BODY, list(bodies))], **more)


def play(dialogue: Dialogue, steps: Steps[Any], **replies: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """Plays a server that answers and confirms everything: the result, and what was asked."""
    asked: list[dict[str, Any]] = []
    try:
        pending = next(steps)
        while True:
            asked += dialogue.answer(**replies)
            confirm(dialogue)
            pending = steps.send(pending.get())
    except StopIteration as end:
        return end.value, asked


def opened() -> tuple[Dialogue, StageBase]:
    dialogue = Dialogue()
    dialogue.login()
    stage = StageBase(dialogue.session(), TOPIC, 60.0, STAGE)
    _, asked = play(dialogue, stage._open_steps())
    # A topic that is not there is made by the stage, which makes it retained, and not by the lane.
    assert [each["op"] for each in asked] == ["stage.open", "producer.open"]
    assert (asked[0]["destination"], asked[0]["stage"], asked[0]["seconds"]) == ("topic:prices", STAGE, 60)
    return dialogue, stage


def append(stage: StageBase, *bodies: bytes, **more: Any) -> None:
    pending, _ = drive(stage._append_steps(content(*bodies, **more)))
    assert pending is None, "there is room"


def test_blocks_name_their_stage_and_leave_at_once() -> None:
    dialogue, stage = opened()
    append(stage, b"a", b"b", priority=7, delivery_time=5_000, base_timestamp=77)
    append(stage, b"c")
    first, second = dialogue.published()
    assert (bodies_of(first), bodies_of(second)) == ([b"a", b"b"], [b"c"])
    assert first.stage == second.stage == STAGE
    assert (first.priority, first.delivery_time, first.base_timestamp) == (7, 5_000, 77)
    assert second.base_timestamp == dialogue.wall
    assert first.delivery_mode is DeliveryMode.PERSISTENT
    assert second.first_sequence == first.first_sequence + 2


def test_a_receipt_comes_when_everything_is_confirmed() -> None:
    dialogue, stage = opened()
    append(stage, b"aa", b"b")
    append(stage, b"c")
    assert not next(stage._close_steps()).done
    receipt, _ = play(dialogue, stage._close_steps())
    assert receipt == StageReceipt(TOPIC, STAGE, 3)
    assert receipt.bytes == 4
    with pytest.raises(IllegalState, match="closed"):
        append(stage, b"d")


def test_an_empty_stage_has_a_receipt_too() -> None:
    _, stage = opened()
    assert drive(stage._close_steps())[1] == StageReceipt(TOPIC, STAGE, 0)


def test_blocks_are_sent_again_after_a_reconnect_in_the_same_stage() -> None:
    dialogue, stage = opened()
    append(stage, b"a")
    dialogue.published()
    dialogue.lose()
    dialogue.pass_time(10)
    dialogue.login()
    dialogue.answer()
    [block] = dialogue.published()
    assert (bodies_of(block), block.stage) == ([b"a"], STAGE)


def test_a_refusal_is_told_by_the_next_append_and_by_close() -> None:
    dialogue, stage = opened()
    append(stage, b"a")
    [block] = dialogue.published()
    [lane] = dialogue.core.lanes.values()
    fields = {
        "producer": lane.number, "first": block.first_sequence, "last": block.first_sequence,
        "code": ProducerExpired("").code, "text": "No.",
    }  # fmt: skip
    dialogue.say(control(FrameType.REFUSED, 1, fields))
    with pytest.raises(ProducerExpired):
        append(stage, b"b")


def test_appending_waits_for_room() -> None:
    dialogue, stage = opened()
    [lane] = dialogue.core.lanes.values()
    lane.credit = 0
    big = bytes(STAGE_WAITING_BYTES_MAX // 2)
    stage._core.max_message_bytes = STAGE_WAITING_BYTES_MAX
    # One is under way at any credit, two wait.
    for _ in range(3):
        append(stage, big)
    steps = stage._append_steps(content(b"small"))
    pending, _ = drive(steps)
    assert pending is not None and not pending.done
    confirm(dialogue)
    assert pending.done


def test_the_stages_of_a_session_share_the_room_to_wait() -> None:
    dialogue, stage = opened()
    [lane] = dialogue.core.lanes.values()
    append(stage, b"a")
    assert lane.waiting_max == STAGE_WAITING_BYTES_MAX
    for number in range(3):
        stage._state.lane(Destination(Kind.TOPIC, f"other{number}"))
    append(stage, b"b")
    assert lane.waiting_max == STAGE_WAITING_BYTES_MAX // 4


def test_dropping_waits_for_what_is_under_way() -> None:
    dialogue, stage = opened()
    append(stage, b"a")
    steps = stage._drop_steps()
    pending = next(steps)
    assert not dialogue.requests()
    confirm(dialogue)
    steps.send(pending.get())
    [asked] = dialogue.requests()
    assert (asked["op"], asked["stages"]) == ("stage.drop", [{"destination": "topic:prices", "stage": STAGE}])


def test_groups_in_a_block_are_flagged() -> None:
    groups = value_column(Column.GROUP_ID, Type.STRING, "", ["g"])
    batch = ColumnsBatch(StagedColumns(1, BodyKind.BYTES, [bytes_column(Column.BODY, [b"a"]), groups]), STAGE, 1)
    assert batch.seal(TOPIC, stamp(), 1, 1)[3] == FLAG_GROUPS


def stamp() -> Any:
    dialogue = Dialogue()
    dialogue.login()
    return dialogue.session().lane(TOPIC).stamp


def test_blocks_that_the_server_would_refuse_are_refused_here() -> None:
    with pytest.raises(MessageFormatError, match="cut it"):
        check_content(StagedColumns(0, BodyKind.BYTES, []), 100)
    with pytest.raises(MessageFormatError, match="cut it"):
        check_content(StagedColumns(BATCH_MESSAGES_MAX + 1, BodyKind.EMPTY, []), 100)
    with pytest.raises(MessageTooLarge, match="cut it"):
        check_content(content(bytes(BLOCK_BYTES_MAX)), 1 << 30)
    with pytest.raises(MessageTooLarge, match=r"the 200,000 that the server takes, which its setting segment_bytes"):
        check_content(content(*[bytes(1_000)] * 200), 1_000, 200_000)
    with pytest.raises(MessageTooLarge, match="A message has 5,000 bytes"):
        check_content(content(b"a", bytes(5_000), b"b"), 4_999)
    check_content(content(b"a", bytes(5_000), b"b"), 5_000)


def test_receipts_are_committed_and_dropped_by_their_names() -> None:
    dialogue = Dialogue()
    dialogue.login()
    named = {"destination": "topic:prices", "stage": STAGE}
    reply = {"committed": True, "epoch": 5}
    committed, [asked] = play(dialogue, commit_steps(dialogue.core, "app", 5, [RECEIPT]), stage_commit=reply)
    assert committed is True
    assert (asked["app"], asked["epoch"], asked["stages"]) == ("app", 5, [{**named, "messages": 3}])
    assert "seconds" not in asked and "run" not in asked
    _, [asked] = play(dialogue, commit_steps(dialogue.core, "app", 5, [RECEIPT], 7, 0.2), stage_commit=reply)
    assert (asked["run"], asked["seconds"]) == (7, 1)
    dropped, [asked] = play(dialogue, drop_steps(dialogue.core, [RECEIPT]), stage_drop={"dropped": 1})
    assert (dropped, asked["stages"]) == (1, [named])
    assert play(dialogue, drop_steps(dialogue.core, [])) == (0, [])
    epoch, [asked] = play(dialogue, last_steps(dialogue.core, "app", [TOPIC, "queue:q"]), stage_last={"epoch": 4})
    assert (epoch, asked["destinations"]) == (4, ["topic:prices", "queue:q"])


def test_a_receipt_can_be_copied_to_another_process() -> None:
    again = copy.deepcopy(RECEIPT)
    assert (again, again.bytes) == (RECEIPT, 30)
