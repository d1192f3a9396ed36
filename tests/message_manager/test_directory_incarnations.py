"""Which of the destinations that bore a name is meant: the newest lives, and nobody brings an older one back."""

from __future__ import annotations

import pytest
from tests.message_manager.dialogue import dump
from tests.message_manager.stage import CM1, CM2, ORDERS, OTHER, Stage, errors, identity

from tocsin.cluster.commands import CloseConsumer, ConsumerEnded, SettleMessages
from tocsin.message_manager import directory
from tocsin.message_manager.destination import Options
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.machine import Settings
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.message_manager.recovery import Recovery
from tocsin.model.errors import InvalidDestination, StaleName
from tocsin.wire.frames import Outcome, Settle


def test_what_the_directory_of_names_knows_is_created_when_it_is_used() -> None:
    stage = Stage()
    stage.open_producer(CM1, incarnation=5)
    assert stage.state().incarnation == 5
    stage.open_consumer(CM1, incarnation=5)
    assert stage.ask(CM1, "destination.show", destination="queue:other", incarnation=2)["messages"] == 0
    assert stage.state("queue:other").incarnation == 2


def test_a_newer_destination_takes_the_place_of_what_is_left_of_an_older_one() -> None:
    stage = Stage()
    former = stage.open_producer(CM1, incarnation=5)
    stage.publish(CM1, former, 1, b"old")
    stage.open_consumer(CM1, OTHER, incarnation=5, messages=0)
    newer = stage.open_producer(CM2, identity(3), incarnation=6)
    assert newer != former and stage.state().backlog() == 0
    assert [type(each) for each in stage.replies[CM1]] == [ConsumerEnded]


def test_what_was_renounced_is_made_by_nobody_who_knew_its_place() -> None:
    stage = Stage()
    assert stage.ask(CM1, "destination.renounce", destination=ORDERS, incarnation=5) == {"renounced": True}
    dead = dump(stage.manager)
    after = stage.crash()
    assert dump(after.manager) == dead
    for again in (stage, after):
        with pytest.raises(StaleName):
            again.open_producer(CM2, incarnation=5)
        with pytest.raises(StaleName):
            again.ask(CM2, "destination.create", destination=ORDERS, incarnation=5)
    after.open_producer(CM2, incarnation=6)
    assert after.state().incarnation == 6
    with pytest.raises(StaleName):
        after.ask(CM1, "destination.renounce", destination=ORDERS, incarnation=5)


def test_what_was_made_is_not_renounced() -> None:
    stage = Stage()
    stage.open_producer(CM1, incarnation=5)
    for incarnation in (0, 5):
        asked = stage.ask(CM1, "destination.renounce", destination=ORDERS, incarnation=incarnation)
        assert asked == {"renounced": False}
    assert stage.state().incarnation == 5


def test_who_knows_an_older_one_must_look_it_up_again() -> None:
    stage = Stage()
    stage.open_producer(CM1, incarnation=6)
    for ask in (stage.open_producer, stage.open_consumer):
        with pytest.raises(StaleName):
            ask(CM2, OTHER, incarnation=5)
    for operation in ("destination.show", "destination.delete", "destination.create"):
        with pytest.raises(StaleName):
            stage.ask(CM2, operation, destination=ORDERS, incarnation=5)
    assert stage.state().incarnation == 6


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_deleted_destination_does_not_come_back_also_after_a_restart(snapshot: bool) -> None:
    stage = Stage()
    stage.open_producer(CM1, incarnation=5)
    assert stage.ask(CM1, "destination.delete", destination=ORDERS, incarnation=5) == {}
    if snapshot:
        stage.snapshot()
    again = stage.crash()
    assert dump(again.manager) == dump(stage.manager)
    for each in (stage, again):
        with pytest.raises(StaleName):
            each.open_producer(CM2, OTHER, incarnation=5)
        # Who was interrupted before the name was free can delete it once more.
        assert each.ask(CM2, "destination.delete", destination=ORDERS, incarnation=5) == {}
        each.open_producer(CM2, OTHER, incarnation=6)
    assert dump(again.manager)["destinations"]["orders"]["incarnation"] == 6


def test_without_a_directory_of_names_all_is_as_ever() -> None:
    stage = Stage()
    stage.open_producer(CM1)
    stage.ask(CM1, "destination.delete", destination=ORDERS)
    with pytest.raises(InvalidDestination, match="no queue"):
        stage.ask(CM1, "destination.delete", destination=ORDERS)
    stage.open_producer(CM1, OTHER)
    assert (stage.state().incarnation, stage.manager.directory.deleted) == (0, {})


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_destination_from_before_the_directory_keeps_its_messages(snapshot: bool) -> None:
    stage = Stage()
    former = stage.open_producer(CM1)
    stage.publish(CM1, former, 1, b"kept")
    assert stage.open_producer(CM1, OTHER, incarnation=1) == former
    if snapshot:
        stage.snapshot()
    again = stage.crash()
    assert (again.state().incarnation, again.state().backlog()) == (1, 1)


def test_names_of_one_kind_stay_of_that_kind() -> None:
    stage = Stage()
    stage.open_producer(CM1, incarnation=5)
    with pytest.raises(InvalidDestination, match="is a queue"):
        stage.open_consumer(CM1, destination="topic:orders", incarnation=5)


def test_the_memory_of_what_was_deleted_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "DELETED_NAMES_MAX", 2)
    stage = Stage()
    for number, name in enumerate(("a", "b", "a", "c"), start=1):
        stage.open_producer(CM1, destination=f"queue:{name}", incarnation=number)
        stage.ask(CM1, "destination.delete", destination=f"queue:{name}", incarnation=number)
    assert stage.manager.directory.deleted == {"a": 3, "c": 4}


def test_records_of_a_former_release_still_load() -> None:
    known = Directory(Options())
    recovery = Recovery(known, 0.0)
    fields = {
        "id": 4, "name": "orders", "kind": 1, "connection": None, "retained": False, "max_age_ms": 0, "max_bytes": 0,
        "redelivery_limit": 7, "backoff_ms": 0,
    }  # fmt: skip
    recovery.apply(1, RecordKind.CREATE, write_map(fields)[0])
    state = known.by_id[4]
    assert (state.incarnation, state.options) == (0, Options(redelivery_limit=7))


def test_late_words_about_the_older_one_reach_nobody() -> None:
    stage = Stage()
    former = stage.open_producer(CM1, incarnation=5)
    stage.open_producer(CM2, OTHER, incarnation=6)
    assert errors(stage.publish(CM1, former, 1, b"late")) == [InvalidDestination]


def test_dead_messages_do_not_bring_a_deleted_destination_back() -> None:
    stage = Stage(Settings(defaults=Options(redelivery_limit=1)))
    destination = stage.open_producer(CM1, incarnation=5)
    stage.publish(CM1, destination, 1, b"poison")
    stage.open_consumer(CM1, OTHER, incarnation=5)
    nack = Settle(1, Outcome.NACK, 1, [(0, 1)])
    stage.tell(CM1, SettleMessages((OTHER, 1), nack))
    stage.tell(CM1, CloseConsumer(stage.number(), (OTHER, 1)))
    assert stage.state("queue:_DMQ").backlog() == 1
    stage.ask(CM1, "destination.delete", destination=ORDERS, incarnation=5)
    assert stage.ask(CM1, "dead.resend", offsets=[0, 1]) == {"messages": 1}
    assert not stage.manager.directory.has("orders")
    assert stage.state("queue:_DMQ").backlog() == 1
