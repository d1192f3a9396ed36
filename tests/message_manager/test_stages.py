"""The stages of a destination as state: rows in arrays, deadlines, and the epochs of applications."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from tests.message_manager.stage import identity

from tocsin.message_manager import stages as module
from tocsin.message_manager.stages import COLUMNS, EpochRow, Epochs, Stage, Stages, run_of
from tocsin.model.batch import BatchHeader, Block, encode_block
from tocsin.model.destination import Kind
from tocsin.model.errors import ResourceExhausted
from tocsin.model.limits import EPOCH_MEMORY_SECONDS
from tocsin.model.values import decode_map, encode_value


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


MEMORY_MS = 1_000 * round(EPOCH_MEMORY_SECONDS)


def commit(app: str, epoch: int, time_ms: int, **more: Any) -> dict[str, Any]:
    return {"app": app, "epoch": epoch, "time": time_ms, "parts": [], **more}


def epochs_of(*records: dict[str, Any]) -> Epochs:
    epochs = Epochs()
    for record in records:
        epochs.apply(record)
    return epochs


def reloaded(epochs: Epochs) -> Epochs:
    again = Epochs()
    again.load(decode_map(encode_value(epochs.fields())))
    assert (again.fields(), again.rows) == (epochs.fields(), epochs.rows)
    return again


def test_the_last_epoch_of_an_application_counts() -> None:
    epochs = epochs_of(commit("a", 3, 1_000, user="anna"), commit("b", 9, 2_000), commit("c", 1, 2_000, user="ben"))
    assert Epochs().last("a") == -1 and not reloaded(Epochs()).rows
    epochs.apply(commit("a", 4, 3_000, user="ben"))
    assert (epochs.last("a"), epochs.last("b")) == (4, 9)
    assert reloaded(epochs).rows == {
        "a": EpochRow(4, 3_000 + MEMORY_MS, "anna"), "b": EpochRow(9, 2_000 + MEMORY_MS),
        "c": EpochRow(1, 2_000 + MEMORY_MS, "ben"),
    }  # fmt: skip


def test_a_snapshot_of_a_former_release_says_when_each_was_used() -> None:
    known = epochs_of(commit("a", 3, 1_000), commit("b", 9, 2_000)).fields()
    former = {name: known[name] for name in ("apps", "ends", "epochs")} | {"used": bytes(array("q", [1_000, 2_000]))}
    epochs = Epochs()
    epochs.load(former)
    assert epochs.rows == {"a": EpochRow(3, 1_000 + MEMORY_MS), "b": EpochRow(9, 2_000 + MEMORY_MS)}


def test_epochs_are_forgotten_by_the_time_of_a_later_record() -> None:
    epochs = epochs_of(commit("old", 3, 1_000), commit("young", 3, 2_000), commit("new", 1, 1_000 + MEMORY_MS))
    assert epochs.last("old") == 3
    epochs = reloaded(epochs)
    epochs.apply(commit("new", 2, 1_001 + MEMORY_MS))
    assert (epochs.last("old"), epochs.last("young")) == (-1, 3)


def test_a_commit_says_how_long_it_must_be_remembered_and_shortens_no_earlier_memory() -> None:
    epochs = epochs_of(
        commit("once", 0, 1_000, seconds=60), commit("often", 0, 1_000), commit("often", 1, 2_000, seconds=1)
    )
    epochs.apply(commit("later", 0, 61_000))
    assert epochs.last("once") == 0
    epochs.apply(commit("later", 1, 61_001))
    assert (epochs.last("once"), epochs.last("often")) == (-1, 1)


def test_a_claim_is_remembered_with_the_commits_of_its_run() -> None:
    claims = [commit(run_of(app), 7, 1_000, seconds=60) for app in ("idle", "busy", "older")]
    epochs = epochs_of(*claims, commit("busy", 0, 50_000, run=7), commit("older", 0, 50_000))
    epochs.apply(commit("later", 0, 61_001))
    assert [epochs.last(run_of(app)) for app in ("idle", "busy", "older")] == [-1, 7, -1]
    epochs = reloaded(epochs)
    epochs.apply(commit("later", 1, 50_000 + MEMORY_MS))
    assert epochs.last(run_of("busy")) == 7
    epochs.apply(commit("later", 2, 50_001 + MEMORY_MS))
    assert epochs.last(run_of("busy")) == -1


def test_nobody_is_forgotten_before_the_time_to_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EPOCHS_MAX", 30)
    epochs = reloaded(epochs_of(*[commit(f"app {number}", 1, 1_000 + number) for number in range(30)]))
    epochs.check_room("app 0", None, 2_000)
    with pytest.raises(ResourceExhausted, match="The epochs of 30 applications"):
        epochs.check_room("another", None, 1_000 + MEMORY_MS)
    epochs.check_room("another", None, 1_001 + MEMORY_MS)
    epochs.apply(commit("another", 1, 1_001 + MEMORY_MS))
    assert len(epochs.rows) == 30 and "app 0" not in epochs.rows


def test_one_user_has_a_share_of_all_that_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EPOCHS_PER_USER_MAX", 3)
    own = [commit(f"app {number}", 1, 1_000 + number, user="anna", seconds=60) for number in range(3)]
    epochs = reloaded(epochs_of(*own, *[commit(f"nobody's {number}", 1, 1_000) for number in range(9)]))
    with pytest.raises(ResourceExhausted, match="The user 'anna' has 3 applications"):
        epochs.check_room("another", "anna", 61_000)
    for app, user in (("app 1", "anna"), ("another", "ben"), ("another", None)):
        epochs.check_room(app, user, 61_000)
    epochs.check_room("another", "anna", 61_001)
    epochs.apply(commit("another", 1, 61_001, user="anna"))
    assert [app for app, row in epochs.rows.items() if row.owner == "anna"] == ["app 1", "app 2", "another"]
    with pytest.raises(ResourceExhausted):
        epochs.check_room("one more", "anna", 61_001)
