"""The stages of a destination as state: rows in arrays, deadlines, and the epochs of applications."""

from __future__ import annotations

from tests.message_manager.stage import identity

from tocsin.message_manager.stages import COLUMNS, EpochRow, Epochs, Stage, Stages
from tocsin.model.batch import BatchHeader, Block, encode_block
from tocsin.model.destination import Kind
from tocsin.model.limits import EPOCH_MEMORY_SECONDS, EPOCHS_MAX


def block(count: int, due: int = 0, expiry: int = 0) -> Block:
    header = BatchHeader("q", Kind.QUEUE, count, priority=7, delivery_time=due, earliest_expiry=expiry)
    return Block(encode_block(header, []))


def filled(*dues: int) -> Stage:
    stage = Stage(10, 1_000)
    for lsn, due in enumerate(dues, start=1):
        stage.add(lsn, block(lsn, due), 1_000 + lsn, (lsn,) if lsn % 2 else ())
    return stage


def test_a_stage_has_one_row_for_each_batch() -> None:
    stage = filled(0, 5, 0)
    assert (len(stage), stage.messages, stage.deadline_ms) == (3, 6, 11_003)
    assert (list(stage.lsns), list(stage.counts), list(stage.dues)) == ([1, 2, 3], [1, 2, 3], [0, 5, 0])
    assert list(stage.priorities) == [7, 7, 7]
    assert stage.left_out == {1: (1,), 3: (3,)}


def test_what_is_not_due_is_taken_out_as_delayed() -> None:
    stage = filled(0, 500, 0, 400)
    assert stage.take_later(500, 77) == []
    [batch] = stage.take_later(499, 77)
    assert (batch.due_ms, batch.lsn, batch.count, batch.priority, batch.sent_lsn) == (500, 2, 2, 7, 77)
    assert list(stage.lsns) == [1, 3, 4]
    assert {len(getattr(stage, name)) for name in COLUMNS} == {3}


def test_a_batch_that_leaves_takes_along_who_leaves_it_out() -> None:
    stage = filled(500, 0)
    [batch] = stage.take_later(0, 77)
    assert batch.left_out == (1,)
    assert stage.left_out == {}


def test_a_stage_comes_back_from_its_fields() -> None:
    stage = filled(0, 500, 0)
    again = Stage.load(stage.fields())
    assert again.fields() == stage.fields()
    assert (again.messages, again.deadline_ms) == (stage.messages, stage.deadline_ms)


def test_stages_are_over_when_they_have_been_silent_for_too_long() -> None:
    stages = Stages()
    for number in (1, 2, 3):
        stages.begin(identity(number), Stage(10, 1_000 * number))
    assert stages.earliest_ms() == 11_000
    stages.open[identity(1)].add(9, block(1), 5_500, ())
    assert stages.over(11_999) == [], "it was appended to meanwhile"
    assert stages.earliest_ms() == 12_000
    stages.take(identity(2))
    assert stages.earliest_ms() == 13_000
    assert stages.over(20_000) == [identity(3), identity(1)]
    assert list(stages.lsns()) == [9], "who asks drops them"


def test_deadlines_of_stages_that_are_gone_do_not_gather() -> None:
    stages = Stages()
    for number in range(1, 2_000):
        stages.begin(identity(number), Stage(10, number))
        if number % 500:
            stages.take(identity(number))
    assert len(stages._deadlines) < 200
    assert stages.over(100_000) == [identity(500), identity(1_000), identity(1_500)]


def test_the_last_epoch_of_an_application_counts() -> None:
    epochs = Epochs()
    assert epochs.last("a") == -1
    epochs.apply("a", 3, 1_000)
    epochs.apply("b", 9, 2_000)
    empty = Epochs()
    empty.load(Epochs().fields())
    assert not empty.rows
    epochs.apply("a", 4, 3_000)
    assert (epochs.last("a"), epochs.last("b")) == (4, 9)
    again = Epochs()
    again.load(epochs.fields())
    assert again.fields() == epochs.fields()
    assert list(again.rows.items()) == [("b", EpochRow(9, 2_000)), ("a", EpochRow(4, 3_000))]


def test_epochs_are_forgotten_by_the_time_of_a_later_record() -> None:
    epochs = Epochs()
    epochs.apply("old", 3, 1_000)
    epochs.apply("young", 3, 2_000)
    epochs.apply("new", 1, 1_000 + 1_000 * round(EPOCH_MEMORY_SECONDS))
    assert epochs.last("old") == 3
    epochs.apply("new", 2, 1_001 + 1_000 * round(EPOCH_MEMORY_SECONDS))
    assert (epochs.last("old"), epochs.last("young")) == (-1, 3)


def test_nobody_is_forgotten_before_the_time_to_make_room() -> None:
    epochs = Epochs()
    for number in range(EPOCHS_MAX):
        epochs.apply(f"app {number}", 1, 1_000)
    assert epochs.takes("app 0", 2_000)
    assert not epochs.takes("another", 2_000)
    assert epochs.takes("another", 1_001 + 1_000 * round(EPOCH_MEMORY_SECONDS))
