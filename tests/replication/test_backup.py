"""A backup stores in the primary's order, acknowledges what is on disk, and asks for what is missing."""

from __future__ import annotations

from tests.replication.seat import CONFIG, EPOCH, Seat, entry

from tocsin.cluster.register_messages import Heartbeat
from tocsin.replication.backup import Backup
from tocsin.replication.data_pool import digest_of
from tocsin.replication.events import Committed
from tocsin.replication.messages import Acked, Fetch, Fetched, Order, OrderEntry, Reference
from tocsin.replication.roles import Trigger

PRIMARY = 1
STORE = 20
PATIENCE = 2.0


def following(*epochs: int) -> tuple[Seat, Backup]:
    seat = Seat(2, *epochs)
    seat.log.promise(EPOCH)
    seat.flush()
    return seat, Backup(seat.context, EPOCH, PRIMARY, now=0.0, patience=PATIENCE)


def order(first: int, count: int = 1, previous: int = EPOCH, commit: int = 0) -> Order:
    entries = tuple(OrderEntry(1, b"%d" % (first + number), None) for number in range(count))
    return Order(EPOCH, previous, first, commit, entries)


def beat(last: int, commit: int = 0, *, leased: bool = True) -> Heartbeat:
    return Heartbeat(EPOCH, 0.0, leased, commit, last, CONFIG, ())


def test_an_order_is_stored_and_acknowledged_when_it_is_on_disk() -> None:
    seat, backup = following()
    backup.order(order(1, 2, previous=0), 0.1)
    assert seat.taken() == []
    seat.flush()
    backup.log_progress()
    assert seat.sent() == [((PRIMARY,), Acked(EPOCH, STORE, 2, seat.context.life))]
    backup.log_progress()
    assert seat.taken() == [], "once is enough"


def test_nothing_is_acknowledged_before_the_promise_is_durable() -> None:
    seat = Seat(2)
    seat.log.promise(EPOCH)
    backup = Backup(seat.context, EPOCH, PRIMARY, 0.0, PATIENCE)
    backup.heartbeat(beat(0), 0.1)
    assert seat.taken() == []


def test_a_suffix_that_is_not_known_to_match_is_not_acknowledged() -> None:
    seat, backup = following(1, 1, 1)
    backup.heartbeat(beat(3), 0.1)
    assert seat.messages() == [Acked(EPOCH, STORE, 0, seat.context.life)]


def test_it_is_committed_here_as_far_as_this_log_is_the_primary_s() -> None:
    seat, backup = following()
    backup.order(order(1, 2, previous=0, commit=5), 0.1)
    assert seat.taken() == [Committed(2, 0)]
    backup.order(order(3, 2), 0.2)
    assert seat.taken() == [Committed(4, 0)]
    backup.heartbeat(beat(4, commit=4), 0.3)
    assert not [effect for effect in seat.taken() if isinstance(effect, Committed)]


def test_an_order_that_comes_too_early_waits() -> None:
    seat, backup = following()
    backup.order(order(2), 0.1)
    assert seat.log.last_lsn == 0
    backup.order(order(1, previous=0), 0.11)
    assert seat.epochs() == [EPOCH, EPOCH]


def test_what_does_not_come_is_fetched() -> None:
    seat, backup = following()
    backup.order(order(3), 0.1)
    backup.tick(0.11)
    assert seat.taken() == []
    backup.tick(backup.next_deadline())
    assert seat.messages() == [Fetch(EPOCH, 1, 0)]
    backup.fetched(Fetched(EPOCH, 1, 0, 0, 0, (entry(EPOCH), entry(EPOCH))), 0.3)
    backup.tick(backup.next_deadline())
    assert seat.messages() == [Fetch(EPOCH, 3, EPOCH)], "there is more"


def test_an_answer_without_progress_is_not_asked_for_again_at_once() -> None:
    """Its primary may have restarted and lost the end of its log; a later epoch will come."""
    seat, backup = following()
    backup.heartbeat(beat(5), 0.1)
    backup.tick(backup.next_deadline())
    backup.fetched(Fetched(EPOCH, 1, 0, 0, 0, ()), 0.2)
    seat.taken()
    backup.tick(0.21)
    assert seat.taken() == []
    assert backup.next_deadline() > 0.3


def test_payloads_are_taken_from_the_pool() -> None:
    seat, backup = following()
    name = Reference(bytes(16), 1, digest_of(b"payload"))
    seat.context.pool.put(name, b"payload")
    backup.order(Order(EPOCH, 0, 1, 0, (OrderEntry(3, b"head ", name),)), 0.1)
    assert b"".join(seat.log.entry(1).parts) == b"head payload"
    assert len(seat.context.pool) == 0


def test_an_order_waits_for_a_payload_that_is_on_its_way() -> None:
    seat, backup = following()
    name = Reference(bytes(16), 1, digest_of(b"payload"))
    first, second = OrderEntry(1, b"in line", None), OrderEntry(3, b"", name)
    backup.order(Order(EPOCH, 0, 1, 0, (first, second)), 0.1)
    assert seat.log.last_lsn == 1
    seat.context.pool.put(name, b"payload")
    backup.data_arrived(name, 0.105)
    assert b"".join(seat.log.entry(2).parts) == b"payload"


def test_a_payload_that_never_comes_is_fetched_from_the_primary() -> None:
    seat, backup = following()
    name = Reference(bytes(16), 1, digest_of(b"payload"))
    backup.order(Order(EPOCH, 0, 1, 0, (OrderEntry(3, b"", name),)), 0.1)
    backup.tick(backup.next_deadline())
    assert seat.messages() == [Fetch(EPOCH, 1, 0)]


def test_another_record_before_the_order_makes_it_step_back() -> None:
    seat, backup = following(1, 1, 2, 2)
    backup.order(order(5, previous=1), 0.1)
    backup.tick(0.1)
    assert seat.messages() == [Fetch(EPOCH, 5, 2)]
    backup.fetched(Fetched(EPOCH, 4, 3, 0, 0, (entry(3), entry(EPOCH))), 0.2)
    backup.tick(0.2)
    assert seat.messages() == [Fetch(EPOCH, 3, 1)], "before the run of epoch 2"
    backup.fetched(Fetched(EPOCH, 3, 1, 0, 0, (entry(3), entry(3), entry(EPOCH))), 0.3)
    assert seat.epochs() == [1, 1, 3, 3, EPOCH]


def test_records_that_are_in_a_snapshot_only() -> None:
    _, backup = following()
    backup.fetched(Fetched(EPOCH, 7, 0, 0, 7, ()), 0.1)
    assert (backup.trigger, backup.needed) == (Trigger.TOO_OLD, 7)


def test_silence() -> None:
    _, backup = following()
    backup.heartbeat(beat(0), 1.0)
    backup.tick(1.0 + PATIENCE - 0.01)
    assert backup.trigger is None
    backup.tick(1.0 + PATIENCE)
    assert backup.trigger is Trigger.SILENCE


def test_a_primary_without_a_lease_is_not_waited_for() -> None:
    """It is heard but hears nobody; as long as it is believed, nobody else can lead."""
    _, backup = following()
    for moment in (0.5, 1.0, 1.5):
        backup.heartbeat(beat(0, leased=False), moment)
        backup.order(order(1, previous=0), moment)
    backup.tick(PATIENCE)
    assert backup.trigger is Trigger.SILENCE
