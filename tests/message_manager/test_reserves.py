from __future__ import annotations

from tests.message_manager.stage import CM1, ORDERS, Stage

from tocsin.message_manager.reserves import begin_reserves, end_reserves
from tocsin.message_manager.view import QUEUE_VIEW


def served() -> Stage:
    stage = Stage()
    orders = stage.open_producer(CM1)
    stage.publish(CM1, orders, 1, b"one", b"two")
    stage.open_consumer(CM1)
    return stage


def test_a_clean_stop_notes_just_what_was_delivered() -> None:
    stage = served()
    state = stage.state(ORDERS)
    view = state.views[QUEUE_VIEW]
    assert view.requested > 2, "reserved ahead"
    end_reserves(state, stage.manager.ledger)
    assert view.requested == view.reserved == 2


def test_a_start_begins_behind_what_is_stored() -> None:
    stage = served().crash()
    state = stage.state(ORDERS)
    last = stage.manager.ledger.last_lsn()
    begin_reserves(state, stage.manager.ledger)
    assert stage.manager.ledger.last_lsn() == last, "the start itself has noted it already"
