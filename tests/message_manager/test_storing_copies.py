"""R12: a destination may insist on two copies; then nothing is taken in while there can be only one."""

from __future__ import annotations

import pytest
from tests.message_manager.stage import CM1, ORDERS, OTHER, SESSION, Stage, delivered, errors, identity

from tocsin.cluster.commands import Stored
from tocsin.message_manager.machine import Settings
from tocsin.model.errors import IllegalState, InvalidDestination, ProtocolError, StorageDegraded


def careful() -> tuple[Stage, int]:
    stage = Stage(Settings(most_copies=2))
    stage.manager.ledger.possible_copies = stage.manager.ledger.copies = 2
    assert stage.ask(CM1, "destination.create", destination=ORDERS, min_copies=2) == {"created": True}
    return stage, stage.open_producer(CM1)


def test_publishing_is_refused_while_only_one_copy_can_be_made() -> None:
    stage, destination = careful()
    assert stage.publish(CM1, destination, 1, b"a") == [Stored(SESSION, 1, 1, 2)]
    stage.manager.ledger.possible_copies = 1
    refused = stage.publish(CM1, destination, 2, b"b")
    assert errors(refused) == [StorageDegraded]
    assert "send again later" in str(refused[0].error)  # type: ignore[union-attr]
    # What was sent behind it is refused for the same reason, so order holds.
    assert errors(stage.publish(CM1, destination, 3, b"c")) == [StorageDegraded]
    # What is there is still delivered, and what was stored is confirmed again.
    assert delivered(stage.open_consumer(CM1, OTHER)) == [(0, 1, 1)]
    assert stage.publish(CM1, destination, 1, b"a") == [Stored(SESSION, 1, 1, 2)]
    stage.manager.ledger.possible_copies = 2
    assert isinstance(stage.publish(CM1, destination, 2, b"b")[0], Stored)


def test_others_go_on_with_one_copy_and_the_confirmation_says_so() -> None:
    stage, _ = careful()
    stage.manager.ledger.possible_copies = stage.manager.ledger.copies = 1
    other = stage.open_producer(CM1, identity(3), destination="queue:other")
    assert stage.publish(CM1, other, 1, b"a", session=identity(3)) == [Stored(identity(3), 1, 1, 1)]


def test_copies_that_can_never_be_are_refused_at_creation() -> None:
    with pytest.raises(InvalidDestination, match="needs a cluster"):
        Stage().ask(CM1, "destination.create", destination=ORDERS, min_copies=2)
    assert Stage().ask(CM1, "destination.create", destination=ORDERS, min_copies=1) == {"created": True}


@pytest.mark.parametrize("wanted", [0, 3, "2"])
def test_one_or_two(wanted: object) -> None:
    with pytest.raises(ProtocolError, match="min_copies"):
        Stage(Settings(most_copies=2)).ask(CM1, "destination.create", destination=ORDERS, min_copies=wanted)


@pytest.mark.parametrize("snapshot", [False, True])
def test_the_option_survives_and_is_shown(snapshot: bool) -> None:
    stage, destination = careful()
    if snapshot:
        stage.snapshot()
    again = stage.crash()
    assert again.ask(CM1, "destination.show", destination=ORDERS)["min_copies"] == 2
    again.open_producer(CM1)
    assert errors(again.publish(CM1, destination, 1, b"a")) == [StorageDegraded]
    with pytest.raises(IllegalState, match="other options"):
        again.ask(CM1, "destination.create", destination=ORDERS, min_copies=1)


def test_a_change_between_storing_and_confirming_is_told() -> None:
    stage, _ = careful()
    destination = stage.open_producer(CM1, destination="queue:other")
    stage.workers.slow = True
    assert stage.publish(CM1, destination, 1, b"a") == []
    # The other member has left the in-sync set meanwhile: the record is committed with one copy.
    stage.manager.ledger.possible_copies = stage.manager.ledger.copies = 1
    stage.workers.slow = False
    stage.workers.catch_up()
    stage.settle()
    assert stage.replies[CM1] == [Stored(SESSION, 1, 1, 1)]


def test_who_wants_two_copies_waits_for_the_second_and_others_do_not() -> None:
    stage, destination = careful()
    other = stage.open_producer(CM1, identity(3), destination="queue:other")
    stage.workers.slow = True
    assert stage.publish(CM1, destination, 1, b"a") == [] == stage.publish(CM1, destination, 2, b"b")
    assert stage.publish(CM1, other, 1, b"c", session=identity(3)) == []
    # The other member leaves: all of it is committed with one copy.
    stage.manager.ledger.possible_copies = stage.manager.ledger.copies = 1
    stage.workers.slow = False
    stage.workers.catch_up()
    stage.settle()
    assert stage.replies.pop(CM1) == [Stored(identity(3), 1, 1, 1)]
    # To say it again does not help.
    assert stage.publish(CM1, destination, 2, b"b") == []
    stage.manager.ledger.possible_copies = stage.manager.ledger.copies = 2
    stage.settle()
    assert stage.replies.pop(CM1) == [Stored(SESSION, 1, 1, 2), Stored(SESSION, 1, 2, 2), Stored(SESSION, 1, 2, 2)]


def test_a_copy_is_not_enough_before_the_own_disk_has_it() -> None:
    stage, destination = careful()
    stage.workers.slow = True
    stage.publish(CM1, destination, 1, b"a")
    stage.manager.ledger.copies = 3
    stage.settle()
    assert not stage.replies.get(CM1)
    stage.workers.slow = False
    stage.workers.catch_up()
    stage.settle()
    assert stage.replies[CM1] == [Stored(SESSION, 1, 1, 3)]


@pytest.mark.parametrize("snapshot", [False, True])
def test_what_was_stored_in_an_earlier_life_is_confirmed_with_two_copies_or_not_at_all(snapshot: bool) -> None:
    stage, destination = careful()
    stage.publish(CM1, destination, 1, b"a")
    if snapshot:
        stage.snapshot()
    again = stage.crash()
    again.open_producer(CM1)
    assert again.publish(CM1, destination, 1, b"a") == []
    again.manager.ledger.copies = 2
    again.settle()
    assert again.replies[CM1] == [Stored(SESSION, 1, 1, 2)]
