"""Mistakes in the middle of a message manager's work: what they end, and what stops the node."""

from __future__ import annotations

from typing import Any

import pytest
from tests.message_manager.stage import CM1, CM2, ORDERS, OTHER, SESSION, Stage, answered

from tocsin.cluster.commands import (
    Administer,
    CloseSession,
    ConsumerEnded,
    Delivery,
    Failed,
    NotStored,
    SettleMessages,
    Stored,
)  # fmt: skip
from tocsin.message_manager import machine
from tocsin.message_manager.administration import Administration
from tocsin.message_manager.attachments import Attachments
from tocsin.message_manager.dispatch import dispatch as plain_dispatch
from tocsin.message_manager.leaving import Leaving
from tocsin.message_manager.storing import publish
from tocsin.model.errors import BrokenInvariant, InternalError
from tocsin.model.limits import FAULT_PAUSE_SECONDS
from tocsin.wire.frames import Outcome, Settle

pytestmark = pytest.mark.makes_mistakes


class Broken:
    """Stands in for a function and fails, as often as it is called."""

    def __init__(self, before: Any = None) -> None:
        self.calls = 0
        self._before = before

    def __call__(self, *arguments: Any, **named: Any) -> None:
        self.calls += 1
        if self._before is not None:
            self._before(*arguments, **named)
        raise KeyError("nobody expected this")


def test_a_batch_that_can_not_be_stored_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    orders = stage.open_producer(CM1)
    with monkeypatch.context() as patch:
        patch.setattr(machine, "publish", Broken())
        (refused,) = stage.publish(CM1, orders, 1, b"one")
    assert isinstance(refused, NotStored) and isinstance(refused.error, InternalError)
    assert stage.settings.faults.count == 1
    (stored,) = stage.publish(CM1, orders, 1, b"one")
    assert isinstance(stored, Stored), "the destination and the node go on"


def test_a_command_in_an_inbox_is_refused_and_the_next_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.open_producer(CM1)
    with monkeypatch.context() as patch:
        patch.setattr(Attachments, "open", Broken())
        with pytest.raises(InternalError):
            stage.open_consumer(CM1)
    stage.open_consumer(CM1)


def test_a_request_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    monkeypatch.setattr(Administration, "run", Broken())
    (failed,) = stage.tell(CM1, Administer(7, "destination.list", {}))
    assert isinstance(failed, Failed) and failed.request == 7 and isinstance(failed.error, InternalError)


def test_a_settlement_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    orders = stage.open_producer(CM1)
    stage.publish(CM1, orders, 1, b"one")
    stage.open_consumer(CM1)
    monkeypatch.setattr("tocsin.message_manager.attachments.settle", Broken())
    settle = Settle(1, Outcome.ACKNOWLEDGE, 1, [(0, 1)])
    (ended,) = stage.tell(CM1, SettleMessages((SESSION, 1), settle))
    assert isinstance(ended, ConsumerEnded) and isinstance(ended.error, InternalError)


def test_a_session_that_can_not_leave_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.open_producer(CM1)
    monkeypatch.setattr(Leaving, "leave", Broken())
    assert answered(stage.tell(CM1, CloseSession(9, SESSION, False))) == {}


def test_a_mistake_after_a_record_stops_the_node_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    orders = stage.open_producer(CM1)
    monkeypatch.setattr(machine, "publish", Broken(publish))
    with pytest.raises(BrokenInvariant, match=r"after record \d+ was appended.*KeyError"):
        stage.publish(CM1, orders, 1, b"one")


def test_after_such_a_stop_a_start_finds_what_was_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    orders = stage.open_producer(CM1)
    with monkeypatch.context() as patch:
        patch.setattr(machine, "publish", Broken(publish))
        with pytest.raises(BrokenInvariant):
            stage.publish(CM1, orders, 1, b"one")
    again = stage.crash()
    assert again.state(ORDERS).log.next_offset in (0, 1)
    again.open_producer(CM1)


def test_a_destination_whose_turn_fails_does_not_spin_and_takes_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    orders, others = stage.open_producer(CM1), stage.open_producer(CM2, OTHER, destination="queue:others")
    stage.open_consumer(CM1)
    stage.open_consumer(CM2, OTHER, destination="queue:others")
    failing = Broken()

    def dispatch(state: Any, *arguments: Any) -> Any:
        return failing() if state.id == orders else plain_dispatch(state, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(machine, "dispatch", dispatch)
        (stored,) = stage.publish(CM1, orders, 1, b"one")
        assert isinstance(stored, Stored), "settle() returns: nothing goes round in circles"
        turns = failing.calls
        assert 0 < turns < 5
        replies = stage.publish(CM2, others, 1, b"two", session=OTHER)
        assert any(isinstance(each, Delivery) for each in replies), "others have their turns"
        deadline = stage.manager.next_deadline()
        assert deadline is not None and deadline > stage.clock.now(), "no timer that is due for ever"
        stage.advance(2 * FAULT_PAUSE_SECONDS)
        assert failing.calls > turns, "it is tried again"
    stage.advance(2 * FAULT_PAUSE_SECONDS)
    assert any(isinstance(each, Delivery) for each in stage.replies.pop(CM1)), "and goes on when it can"


def test_a_timer_that_fails_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    orders = stage.open_producer(CM1)
    stage.publish(CM1, orders, 1, b"one")
    stage.open_consumer(CM1)
    failing = Broken()
    monkeypatch.setattr(machine, "on_time", failing)
    for _ in range(10):
        stage.advance(0.5)
    assert 2 <= failing.calls <= 6
    assert isinstance(stage.publish(CM1, orders, 2, b"two")[-1], Stored | Delivery)


def test_what_became_durable_and_can_not_be_shown_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    orders = stage.open_producer(CM1)
    monkeypatch.setattr(machine, "committed", Broken())
    (stored,) = stage.publish(CM1, orders, 1, b"one")
    assert isinstance(stored, Stored)
