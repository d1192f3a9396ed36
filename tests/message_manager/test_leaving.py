"""Sessions whose client manager is gone: they wait for the grace, and go on elsewhere or are over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.message_manager.effort import steps_of
from tests.message_manager.stage import (
    CM1,
    CM2,
    CONNECTION,
    ORDERS,
    OTHER,
    SESSION,
    Stage,
    answered,
    block,
    delivered,
    errors,
    identity,
)

from tocsin.cluster.commands import (
    Answer,
    CloseConnection,
    CloseConsumer,
    CloseProducer,
    CloseSession,
    GrantCredit,
    NotStored,
    OpenConsumer,
    OpenProducer,
    PauseSession,
    Publish,
    SettledTo,
    SettleMessages,
    Stored,
)
from tocsin.journal.snapshot import Snapshot
from tocsin.message_manager.destination import Options
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.machine import Settings
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.message_manager.recovery import Recovery
from tocsin.message_manager.snapshots import directory_section
from tocsin.message_manager.state_hash import describe_directory
from tocsin.model.destination import parse_destination
from tocsin.model.errors import IllegalState, InvalidClientId, InvalidDestination, ProtocolError
from tocsin.model.identity import DestinationId, Lsn
from tocsin.model.limits import DEPARTURES_PER_TICK, ROWS_PER_STEP, WORK_PER_RUN
from tocsin.model.ranges import pack_ranges
from tocsin.wire.frames import Outcome, Settle

GONE = "1/1/"
KEY = (SESSION, 1)


def with_a_message(stage: Stage) -> None:
    """A consumer of the first client manager has one message in hand."""
    destination = stage.open_producer(CM1, OTHER, connection=identity(101))
    stage.publish(CM1, destination, 1, b"work", session=OTHER)
    assert delivered(stage.open_consumer(CM1)) == [(0, 1, 1)]


def test_a_session_whose_client_manager_is_gone_keeps_what_it_holds_for_a_while() -> None:
    stage = Stage()
    with_a_message(stage)
    stage.open_consumer(CM2, identity(3), connection=identity(103))
    stage.manager.origin_gone(GONE, stage.clock.now())
    stage.advance(4.9)
    assert delivered(stage.replies.pop(CM2, [])) == []
    stage.advance(0.2)
    # It vanished with the message in hand, so that counts as an attempt.
    assert delivered(stage.replies.pop(CM2)) == [(0, 1, 2)]
    assert SESSION not in stage.manager.sessions.known


def test_a_session_may_go_twice_before_its_grace_is_over() -> None:
    """First its link is over, then its client manager is gone; a primary that stood still sees both at once."""
    stage = Stage()
    with_a_message(stage)
    stage.manager.origin_gone(CM1, stage.clock.now())
    stage.manager.origin_gone(GONE, stage.clock.now())
    stage.advance(5.1)
    assert SESSION not in stage.manager.sessions.known


def test_nothing_is_delivered_to_a_client_manager_that_is_gone() -> None:
    stage = Stage()
    with_a_message(stage)
    stage.manager.origin_gone(GONE, stage.clock.now())
    destination = stage.open_producer(CM2, identity(3), connection=identity(103))
    stage.publish(CM2, destination, 1, b"more", session=identity(3))
    assert stage.replies.get(CM1, []) == []


def test_a_session_that_comes_back_through_another_client_manager_goes_on() -> None:
    stage = Stage()
    with_a_message(stage)
    stage.manager.origin_gone(GONE, stage.clock.now())
    stage.advance(1)
    replies = stage.open_consumer(CM2, epoch=1, held=[(0, 1)])
    assert answered(replies) == {"kept": pack_ranges([(0, 1)])}
    stage.advance(10)
    settled = stage.tell(CM2, SettleMessages(KEY, Settle(1, Outcome.ACKNOWLEDGE, 1, [(0, 1)])))
    assert settled == [SettledTo(KEY, 1)]
    assert stage.state().backlog() == 0


def test_the_same_client_manager_comes_back_with_another_link() -> None:
    stage = Stage()
    with_a_message(stage)
    stage.manager.origin_gone(GONE, stage.clock.now())
    assert answered(stage.open_consumer("1/1/1", held=[(0, 1)])) == {"kept": pack_ranges([(0, 1)])}
    stage.advance(10)
    assert list(stage.manager.sessions.known) == [SESSION]
    assert KEY in stage.manager.attachments.by_key


def test_what_a_new_link_does_not_open_again_goes_with_the_old_one() -> None:
    stage = Stage()
    with_a_message(stage)
    stage.open_consumer(CM1, consumer=2, messages=0)
    stage.open_consumer("1/1/10", identity(4), connection=identity(104), messages=0)
    stage.open_consumer("1/1/1", consumer=2, messages=0)
    stage.manager.origin_gone(CM1, stage.clock.now())
    stage.advance(5.1)
    # The session lives, only the consumer that nobody wanted any more is gone. Another link is not meant.
    assert sorted(stage.manager.attachments.by_key) == [(SESSION, 2), (identity(4), 1)]
    assert SESSION in stage.manager.sessions.known


def test_the_deadline_is_told_so_that_somebody_wakes_in_time() -> None:
    stage = Stage(Settings(grace=2.0))
    stage.open_consumer(CM1)
    stage.manager.origin_gone(GONE, stage.clock.now())
    deadline = stage.manager.next_deadline()
    assert deadline == stage.clock.now() + 2.0
    stage.manager.origin_gone("9/9/", stage.clock.now())
    stage.advance(2.0)
    assert stage.manager.sessions.next_deadline() is None
    assert len(stage.manager.attachments.by_key) == 0


def test_a_producers_row_stays_when_its_session_vanished() -> None:
    stage = Stage()
    destination = stage.open_producer(CM1)
    stage.publish(CM1, destination, 1, b"a", b"b")
    stage.manager.origin_gone(GONE, stage.clock.now())
    stage.advance(6)
    # Its client was away for longer than the grace, and sends again what was not confirmed to it.
    stage.open_producer(CM2, epoch=1)
    assert stage.publish(CM2, destination, 1, b"a", b"b") == [Stored(SESSION, 1, 2, 1)]
    assert stage.state().backlog() == 2


# ---- words that come too late


def test_a_former_client_manager_has_no_say_in_a_session_that_moved() -> None:
    stage = Stage()
    with_a_message(stage)
    destination = stage.state().id
    stage.open_producer(CM1)
    stage.open_consumer(CM2, epoch=1, held=[(0, 1)], messages=0)
    stage.open_producer(CM2, epoch=1)
    with pytest.raises(IllegalState, match="moved on"):
        stage.open_producer(CM1)
    with pytest.raises(IllegalState, match="moved on"):
        stage.open_consumer(CM1, consumer=2)
    late = stage.publish(CM1, destination, 1, b"late")
    assert errors(late) == [IllegalState] and isinstance(late[0], NotStored)
    assert stage.tell(CM1, SettleMessages(KEY, Settle(1, Outcome.ACKNOWLEDGE, 1, [(0, 1)]))) == []
    assert stage.tell(CM1, GrantCredit(KEY, 50, 1 << 30)) == []
    assert stage.tell(CM1, CloseConsumer(90, KEY)) == [Answer(90, {})]
    assert stage.tell(CM1, PauseSession(SESSION)) == []
    assert stage.tell(CM1, CloseSession(91, SESSION, True)) == [Answer(91, {})]
    consumer = stage.manager.attachments.by_key[KEY].consumer
    assert (consumer.paused, consumer.messages_allowed, stage.state().backlog()) == (False, 0, 1)
    assert isinstance(stage.publish(CM2, destination, 1, b"in time")[0], Stored)


def test_what_a_session_left_behind_ends_with_its_former_client_manager() -> None:
    stage = Stage()
    with_a_message(stage)
    stage.open_consumer(CM1, consumer=2, messages=0)
    stage.publish(CM1, stage.open_producer(CM1), 1, b"mine")
    # The client is back elsewhere, and has only its second consumer still.
    stage.open_consumer(CM2, epoch=1, consumer=2, messages=0, held=[])
    assert stage.tell(CM1, CloseSession(91, SESSION, False))[-1] == Answer(91, {})
    assert list(stage.manager.attachments.by_key) == [(SESSION, 2)]
    assert SESSION in stage.state().producers.rows
    # What the first one held goes to the one that is left.
    assert delivered(stage.tell(CM2, GrantCredit((SESSION, 2), 10, 1 << 20))) == [(0, 1, 2), (1, 2, 2)]


def test_the_session_of_now_can_be_paused_and_closed() -> None:
    stage = Stage()
    stage.open_consumer(CM1, epoch=3)
    stage.tell(CM1, PauseSession(SESSION, 3))
    assert stage.manager.attachments.by_key[KEY].consumer.paused
    assert stage.tell(CM1, CloseSession(91, SESSION, False, 3)) == [Answer(91, {})]
    assert len(stage.manager.attachments.by_key) == 0


def moved_and_closed(stage: Stage) -> int:
    """A session sends through one client manager, comes back through another, sends again and is closed there."""
    destination = stage.open_producer(CM1)
    stage.publish(CM1, destination, 1, b"once")
    stage.open_producer(CM2, epoch=1)
    assert stage.publish(CM2, destination, 1, b"once") == [Stored(SESSION, 1, 1, 1)]
    assert stage.tell(CM2, CloseSession(91, SESSION, False, 1)) == [Answer(91, {})]
    assert SESSION not in stage.state().producers.rows
    return destination


def vanished(stage: Stage) -> int:
    """The same, and its client manager goes without a word, with all it had; but its producer was closed before."""
    destination = stage.open_producer(CM1)
    stage.publish(CM1, destination, 1, b"once")
    stage.open_producer(CM2, epoch=1)
    stage.tell(CM2, CloseProducer(SESSION, DestinationId(destination)))
    stage.manager.origin_gone("2/1/", stage.clock.now())
    stage.advance(6)
    assert SESSION not in stage.manager.sessions.known and SESSION not in stage.state().producers.rows
    return destination


@pytest.mark.parametrize("ended", [moved_and_closed, vanished])
def test_a_former_client_manager_opens_nothing_for_a_session_that_moved_whatever_became_of_it(
    ended: Callable[[Stage], int],
) -> None:
    """It has not noticed, links again, and says what it knew: that would be stored a second time."""
    stage = Stage()
    destination = ended(stage)
    with pytest.raises(IllegalState, match="moved on"):
        stage.open_producer(CM1)
    with pytest.raises(IllegalState, match="moved on"):
        stage.open_consumer(CM1, consumer=2)
    assert errors(stage.publish(CM1, destination, 1, b"once")) == [IllegalState]
    assert stage.state().backlog() == 1


def test_that_a_session_moved_is_known_to_the_next_primary() -> None:
    stage = Stage()
    moved_and_closed(stage)
    directory = stage.manager.directory
    section = directory_section(directory, int(directory.lsn))
    loaded = Directory(Options())
    Recovery(loaded, 0.0).load(Snapshot(Lsn(directory.lsn), (section,)))
    assert loaded.session_epochs == directory.session_epochs == {SESSION: 1}
    assert describe_directory(loaded)["sessions"] == [(SESSION, 1)]
    standby = Directory(Options())
    recovery = Recovery(standby, 0.0)
    recovery.apply(7, RecordKind.SESSION, write_map({"session": SESSION, "epoch": 1})[0])
    assert (standby.session_epochs, standby.lsn) == ({SESSION: 1}, 7)


def test_that_a_session_moved_is_on_record_before_its_client_hears_that_it_may_go_on() -> None:
    stage = Stage()
    stage.open_producer(CM1)
    last = stage.manager.ledger.last_lsn()
    command = OpenProducer(9, SESSION, 1, parse_destination("queue:orders"), CONNECTION, 1)
    stage.manager.handle(CM2, command, stage.clock.now(), stage.clock.wall())
    stage.manager.run()
    assert stage.manager.ledger.last_lsn() == last + 1
    assert stage.manager.take_replies() == [], "not before the record is durable"


def test_only_so_many_sessions_that_moved_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.directory.SESSION_EPOCHS_MAX", 2)
    stage = Stage()
    for number in range(1, 5):
        stage.open_producer(CM2, identity(number), epoch=1)
    assert list(stage.manager.directory.session_epochs) == [identity(3), identity(4)]


def test_a_session_that_never_moved_leaves_no_record_of_itself() -> None:
    stage = Stage()
    stage.open_producer(CM1)
    last = stage.manager.ledger.last_lsn()
    stage.open_producer(CM1)
    stage.tell(CM1, CloseSession(91, SESSION, False, 0))
    assert stage.manager.directory.session_epochs == {} and stage.manager.ledger.last_lsn() == last


def test_of_two_client_managers_with_the_same_epoch_only_the_one_that_was_heard_last_ends_a_session() -> None:
    """A client whose session.open was not answered has gone on elsewhere."""
    stage = Stage()
    with_a_message(stage)
    stage.open_consumer(CM2, held=[(0, 1)], messages=0)
    assert stage.tell(CM1, CloseSession(91, SESSION, True, 0)) == [Answer(91, {})]
    stage.tell(CM1, PauseSession(SESSION, 0))
    consumer = stage.manager.attachments.by_key[KEY].consumer
    assert not consumer.paused and SESSION in stage.manager.sessions.known


def test_a_settlement_of_a_former_client_manager_is_not_answered() -> None:
    """Its client may be back there, and would take the answer for the one to the same settlement, said again."""
    stage = Stage()
    with_a_message(stage)
    stage.open_consumer(CM2, epoch=1, held=[(0, 1)], messages=0)
    assert stage.tell(CM1, SettleMessages(KEY, Settle(1, Outcome.ACKNOWLEDGE, 1, [(0, 1)]))) == []
    assert stage.tell(CM2, SettleMessages(KEY, Settle(1, Outcome.ACKNOWLEDGE, 1, [(0, 1)]))) == [SettledTo(KEY, 1)]


def test_a_former_client_manager_does_not_close_the_producer_of_a_session_that_moved() -> None:
    """Without its row, what the client sends again would be stored twice."""
    stage = Stage()
    destination = stage.open_producer(CM1)
    stage.publish(CM1, destination, 1, b"once")
    stage.open_producer(CM2, epoch=1)
    stage.tell(CM1, CloseProducer(SESSION, DestinationId(destination)))
    assert stage.publish(CM2, destination, 1, b"once") == [Stored(SESSION, 1, 1, 1)]
    assert stage.state().backlog() == 1


# ---- temporary destinations


def temporary(stage: Stage, origin: str = CM1, connection: bytes = CONNECTION) -> str:
    name = f"_TMP.{connection.hex()}.1"
    made = stage.ask(origin, "temporary.create", kind=1, name=name, connection=connection)
    return str(made["destination"])


def test_temporary_destinations_go_with_the_connections_of_a_client_manager() -> None:
    stage = Stage()
    temporary(stage)
    temporary(stage, CM2, identity(102))
    stage.manager.origin_gone(GONE, stage.clock.now())
    stage.advance(4)
    assert len(list(stage.manager.directory)) == 3
    stage.advance(2)
    assert [state.connection for state in stage.manager.directory] == [None, identity(102)]


@pytest.mark.parametrize("how", ["session", "keep", "create"])
def test_temporary_destinations_stay_when_their_connection_comes_back(how: str) -> None:
    stage = Stage()
    name = temporary(stage)
    stage.manager.origin_gone(GONE, stage.clock.now())
    if how == "session":
        stage.open_producer(CM2)
    elif how == "keep":
        assert stage.ask(CM2, "connection.keep", connections=[CONNECTION]) == {}
    else:
        # The question of before comes again, and gets the same answer.
        assert temporary(stage, CM2) == name
    stage.advance(10)
    assert stage.state(name).connection == CONNECTION
    # The end of the connection at the former client manager is not its end, however often it is told.
    stage.tell(CM1, CloseConnection(CONNECTION))
    stage.tell(CM1, CloseConnection(CONNECTION))
    assert stage.state(name).connection == CONNECTION
    stage.tell("2/1/7", CloseConnection(CONNECTION))
    with pytest.raises(InvalidDestination):
        stage.state(name)
    assert stage.manager.sessions.connections == {}


def test_the_end_of_a_connection_is_answered_once_its_temporary_destinations_are_surely_gone() -> None:
    stage = Stage()
    temporary(stage)
    durable, last = stage.storage.journal.durable_lsn, stage.manager.ledger.last_lsn()
    stage.manager.handle(CM1, CloseConnection(CONNECTION, 70), stage.clock.now(), stage.clock.wall())
    assert stage.manager.ledger.last_lsn() > last == durable and stage.manager.take_replies() == []
    stage.settle()
    assert stage.replies.pop(CM1) == [Answer(70, {})]
    # Said again on a new link it is answered again; and without a number nobody waits.
    assert stage.tell(CM1, CloseConnection(CONNECTION, 70)) == [Answer(70, {})]
    assert stage.tell(CM1, CloseConnection(CONNECTION)) == []


def test_a_temporary_name_of_another_connection_is_not_given_twice() -> None:
    stage = Stage()
    stage.ask(CM1, "temporary.create", kind=1, name="_TMP.a", connection=CONNECTION)
    with pytest.raises(InvalidDestination, match="another connection"):
        stage.ask(CM1, "temporary.create", kind=1, name="_TMP.a", connection=identity(102))


@pytest.mark.parametrize("back", [False, True])
def test_after_a_promotion_temporary_destinations_wait_for_their_connections(
    back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    name = temporary(stage)
    monkeypatch.setattr(Recovery, "drop_temporary", lambda *_: None)
    promoted = stage.crash()
    promoted.manager.adopt_temporary(promoted.clock.now())
    promoted.advance(4)
    assert promoted.state(name).connection == CONNECTION
    if back:
        promoted.open_consumer("1/1/5", destination=name)
    promoted.advance(2)
    assert [state.connection for state in promoted.manager.directory] == [None, *[CONNECTION] * back]


# ---- client ids


def claim(stage: Stage, origin: str, connection: bytes = CONNECTION, word: str = "claim") -> dict[str, object]:
    return stage.ask(origin, f"client_id.{word}", client_id="billing", connection=connection)


def test_one_connection_in_the_cluster_has_a_client_id() -> None:
    stage = Stage()
    assert claim(stage, CM1) == {}
    with pytest.raises(InvalidClientId, match="in use"):
        claim(stage, CM2, identity(102))
    # It may come from another client manager, or after a new link.
    claim(stage, CM2)
    # The release of the former one, and of who does not have it, comes to nothing.
    claim(stage, CM1, word="release")
    claim(stage, CM2, identity(102), word="release")
    with pytest.raises(InvalidClientId):
        claim(stage, CM1, identity(102))
    claim(stage, "2/1/9", word="release")
    claim(stage, CM1, identity(102))


def test_client_ids_of_a_client_manager_that_is_gone_are_free_after_the_grace() -> None:
    stage = Stage()
    claim(stage, CM1)
    stage.ask(CM1, "client_id.claim", client_id="moved", connection=identity(103))
    stage.manager.origin_gone(GONE, stage.clock.now())
    stage.ask(CM2, "client_id.claim", client_id="moved", connection=identity(103))
    stage.advance(4)
    with pytest.raises(InvalidClientId):
        claim(stage, CM2, identity(102))
    stage.advance(2)
    claim(stage, CM2, identity(102))
    assert list(stage.manager.sessions.client_ids) == ["moved", "billing"]


@pytest.mark.parametrize(
    ("operation", "fields", "error"),
    [
        ("client_id.claim", {"client_id": "", "connection": CONNECTION}, InvalidClientId),
        ("client_id.claim", {"client_id": "x" * 256, "connection": CONNECTION}, InvalidClientId),
        ("client_id.claim", {"client_id": "x", "connection": b"short"}, ProtocolError),
        ("connection.keep", {}, ProtocolError),
        ("connection.keep", {"connections": [1]}, ProtocolError),
    ],
)
def test_words_that_make_no_sense(operation: str, fields: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        Stage().ask(CM1, operation, **fields)


# ---- deliveries after a promotion


def test_while_deliveries_are_held_those_who_hold_messages_get_them_back_first() -> None:
    stage = Stage()
    with_a_message(stage)
    promoted = stage.crash()
    promoted.manager.hold_deliveries(promoted.clock.now())
    greedy = promoted.open_consumer(CM2, identity(3), connection=identity(103))
    assert delivered(greedy) == []
    assert answered(promoted.open_consumer("1/1/1", held=[(0, 1)])) == {"kept": pack_ranges([(0, 1)])}
    promoted.manager.release_deliveries()
    promoted.settle()
    assert delivered(promoted.replies.get(CM2, [])) == []


def test_held_deliveries_begin_by_themselves_after_the_grace() -> None:
    stage = Stage()
    with_a_message(stage)
    promoted = stage.crash()
    promoted.manager.hold_deliveries(promoted.clock.now())
    assert delivered(promoted.open_consumer(CM2, identity(3), connection=identity(103))) == []
    assert promoted.manager.next_deadline() is not None
    promoted.advance(5)
    assert [each[:2] for each in delivered(promoted.replies[CM2])] == [(0, 1)]


@pytest.mark.parametrize("nacker_first", [False, True])
def test_a_message_that_was_given_back_and_taken_by_another_stays_with_the_other(nacker_first: bool) -> None:
    """The nack was stored, and its confirmation was lost with the primary: so it is said again."""
    stage = Stage()
    with_a_message(stage)
    nack = SettleMessages(KEY, Settle(1, Outcome.NACK, 1, [(0, 1)]))
    stage.tell(CM1, GrantCredit(KEY, 1, 1 << 20))
    stage.tell(CM1, PauseSession(SESSION))
    stage.tell(CM1, nack)
    other = (identity(3), 1)
    assert delivered(stage.open_consumer(CM2, identity(3), connection=identity(103))) == [(0, 1, 2)]
    promoted = stage.crash()
    promoted.manager.hold_deliveries(promoted.clock.now())

    def nacker_restates() -> None:
        promoted.open_consumer("1/1/1", held=[(0, 1)])
        promoted.tell("1/1/1", nack)

    if nacker_first:
        nacker_restates()
    kept = answered(promoted.open_consumer("2/1/1", identity(3), connection=identity(103), held=[(0, 1)]))
    assert kept == {"kept": pack_ranges([(0, 1)])}
    if not nacker_first:
        nacker_restates()
    promoted.manager.release_deliveries()
    promoted.settle()
    promoted.tell("2/1/1", SettleMessages(other, Settle(1, Outcome.ACKNOWLEDGE, 1, [(0, 1)])))
    promoted.advance(60)
    assert promoted.state().backlog() == 0
    assert all(delivered(replies) == [] for replies in promoted.replies.values())


def test_who_lost_a_message_hears_of_it_before_its_acknowledgement_is_confirmed() -> None:
    """Otherwise it would believe that its acknowledgement of a message counts that others get again."""
    stage = Stage()
    with_a_message(stage)
    stage.manager.origin_gone(GONE, stage.clock.now())
    stage.advance(5.1)
    back = "1/1/1"
    now, wall = stage.clock.now(), stage.clock.wall()
    destination = stage.open_producer(back, OTHER, connection=identity(101))
    # This record is not on disk yet when the rest comes.
    more = Publish(OTHER, 1, DestinationId(destination), block(OTHER, 2, (b"more work",)), None)
    opened = OpenConsumer(9, SESSION, 1, parse_destination(ORDERS), CONNECTION, None, held=[(0, 1)])
    acknowledged = SettleMessages(KEY, Settle(1, Outcome.ACKNOWLEDGE, 1, [(0, 1)]))
    for command in (more, opened, acknowledged):
        stage.manager.handle(back, command, now, wall)
    stage.settle()
    heard = [reply for reply in stage.replies[back] if isinstance(reply, Answer | SettledTo)]
    assert heard == [Answer(9, {"kept": pack_ranges([])}), SettledTo(KEY, 1)]


def test_thousands_that_vanish_with_their_client_manager_are_ended_some_at_a_time() -> None:
    stage = Stage()
    many = 5 * DEPARTURES_PER_TICK
    for number in range(1, many + 1):
        stage.open_consumer(CM1, identity(number))
    late = identity(many)
    stage.manager.origin_gone(GONE, stage.clock.now())
    stage.clock.advance(stage.settings.grace + 0.1)
    left: list[int] = []
    for tick in range(100):
        now, wall = stage.clock.now(), stage.clock.wall()
        stage.manager.tick(now, wall)
        if tick == 1:
            # The last of them opens its consumer elsewhere, in the middle of it.
            stage.open_consumer(CM2, late)
        stage.settle()
        left.append(len(stage.manager.attachments.by_key))
        deadline = stage.manager.sessions.next_deadline()
        if deadline is None:
            break
        assert deadline <= now, "the rest is due at once"
    steps = [before - after for before, after in zip([many, *left], left, strict=False)]
    assert max(steps) <= DEPARTURES_PER_TICK and len(left) > 5
    assert list(stage.manager.attachments.by_key) == [(late, 1)]
    assert not stage.manager.attachments.by_key[(late, 1)].consumer.paused


def test_a_session_with_many_consumers_of_a_destination_leaves_it_piece_by_piece() -> None:
    stage, count = Stage(), 3 * ROWS_PER_STEP
    for number in range(count):
        stage.open_consumer(CM1, consumer=number + 1)
    stage.manager.handle(CM1, CloseSession(99, SESSION, counted=False), stage.clock.now(), stage.clock.wall())
    view, before, runs = stage.state().views[0], count, 0
    while view.consumers:
        assert not stage.manager.take_replies(), "it is answered when all of it is done"
        stage.manager.run()
        assert 0 < before - len(view.consumers) <= WORK_PER_RUN
        before, runs = len(view.consumers), runs + 1
    assert runs > 1
    stage.settle()
    assert [reply.request for reply in stage.replies[CM1] if isinstance(reply, Answer)] == [99]
    assert not len(stage.manager.attachments.by_key) and not stage.manager.waiting


def test_a_consumer_leaves_without_a_look_at_all_others() -> None:
    effort = []
    for count in (10, 300):
        stage = Stage()
        for number in range(count):
            stage.open_consumer(CM1, identity(1_000 + number))
            stage.open_consumer(CM1, SESSION, destination=f"queue:other{number}", consumer=number + 1)
        stage.open_consumer(CM1, SESSION, consumer=5_000)
        state = stage.state()
        effort.append(steps_of(partial(stage.manager.attachments.leave, SESSION, state, False, None)))
        assert len(state.views[0].consumers) == count
    assert effort[1] < 3 * effort[0] + 300, "those of a session at a destination are found among the fewer of both"
