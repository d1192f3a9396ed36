"""A voter answers when its vote is on disk, and is another voter when the file is lost."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.bus.datagram import Stream
from tocsin.cluster.envelope import GroupBytes
from tocsin.cluster.envelope import decode as decode_envelope
from tocsin.cluster.envelope import encode as encode_envelope
from tocsin.cluster.group_config import Ballot, Replica, first_config
from tocsin.cluster.lives import Seen
from tocsin.cluster.register_messages import Initialise, Outdated, Prepare, Promise
from tocsin.journal.jobs import WriteJob, Written
from tocsin.model.errors import StorageFailed
from tocsin.node.voter_host import VoterHost, read_vote
from tocsin.replication.codec import decode as decode_group
from tocsin.replication.codec import encode as encode_group
from tocsin.replication.messages import GroupMessage
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.datagrams import to_node
from tocsin.testing.clock import VirtualClock
from tocsin.testing.disk import Fault, SeededRandom, SimulatedDisk
from tocsin.testing.driver import DeferredWorkers

GROUP, WITNESS = 3, 20
SETTINGS = GroupSettings(members=(1, 2), voters=(1, 2, WITNESS))
BALLOT = Ballot(5, 1, 1)


def no_journal(job: WriteJob) -> Written:
    raise AssertionError(f"a witness has no journal for {job}")


class Witness:
    def __init__(self, disk: SimulatedDisk, seed: int = 1, start: int = 0) -> None:
        self.disk, self.clock = disk, VirtualClock()
        self.host = VoterHost(GROUP, SETTINGS, WITNESS, disk, self.clock, SeededRandom(seed), start)
        self.workers = DeferredWorkers(no_journal)
        self.host.attach(self.workers, lambda: None)
        self.clock.advance(SETTINGS.lease_seconds)

    def tell(self, sender: int, message: GroupMessage) -> None:
        self.host.received(sender, 1, b"".join(encode_envelope(GroupBytes(encode_group(message)))))
        self.host.pump()

    def said(self) -> list[GroupMessage]:
        found = []
        for outgoing in self.host.take_out():
            assert outgoing.address == to_node(GROUP, 1) and outgoing.stream is Stream.CONTROL
            envelope = decode_envelope(b"".join(outgoing.parts))
            assert isinstance(envelope, GroupBytes)
            found.append(decode_group(envelope.parts[0]))
        return found


def test_an_answer_leaves_when_the_vote_is_on_disk() -> None:
    witness = Witness(SimulatedDisk())
    witness.tell(1, Prepare(BALLOT))
    assert witness.said() == []
    assert witness.workers.settle()
    (promise,) = witness.said()
    assert isinstance(promise, Promise) and promise.ballot == BALLOT


def test_votes_survive_and_a_lost_file_makes_another_voter() -> None:
    witness = Witness(SimulatedDisk())
    store = witness.host.replica
    config = first_config([Replica(1, 1)], [store], 1)
    witness.tell(1, Initialise(config))
    witness.workers.settle()
    again = Witness(witness.disk.crash(Random(1)), seed=2)
    assert (again.host.replica, again.host.config) == (store, config)
    other = Witness(SimulatedDisk(), seed=3)
    assert other.host.replica != store and other.host.config is None


def test_while_a_vote_is_being_written_the_newest_waits() -> None:
    witness = Witness(SimulatedDisk())
    for counter in (5, 6, 7):
        witness.tell(1, Prepare(Ballot(counter, 1, 1)))
    witness.workers.settle()
    assert len(witness.said()) == 1
    witness.host.pump()
    witness.workers.settle()
    assert len(witness.said()) == 2


def test_what_cannot_be_read_is_counted() -> None:
    witness = Witness(SimulatedDisk())
    witness.host.received(1, 1, b"")
    witness.host.received(1, 1, b"G\\x00")
    assert witness.host.malformed == 2 and witness.said() == []


def test_a_vote_needs_no_free_byte() -> None:
    witness = Witness(SimulatedDisk())
    witness.disk.capacity = 0
    witness.tell(1, Prepare(BALLOT))
    witness.workers.settle()
    (promise,) = witness.said()
    assert isinstance(promise, Promise) and promise.ballot == BALLOT
    again = read_vote(witness.disk.crash(Random(1)))
    assert again is not None and again.promised == BALLOT


def test_a_vote_that_a_failed_sync_left_in_memory_survives_a_power_loss_once_it_was_read() -> None:
    witness = Witness(SimulatedDisk())
    witness.disk.faults[witness.disk.operations + 1] = Fault.FAIL
    witness.tell(1, Prepare(BALLOT))
    with pytest.raises(StorageFailed):
        witness.workers.settle()
    witness.disk.restart()
    found = read_vote(witness.disk)
    assert read_vote(witness.disk.crash(Random(1))) == found


def test_a_vote_that_finds_no_room_is_written_later() -> None:
    """On a file system that copies on write."""
    witness = Witness(SimulatedDisk())
    for ahead in range(3):
        witness.disk.faults[witness.disk.operations + ahead] = Fault.NO_ROOM
    witness.tell(1, Prepare(BALLOT))
    witness.workers.settle()
    witness.host.pump()
    assert witness.said() == [] and not witness.workers.settle()
    witness.disk.faults.clear()
    witness.clock.advance(witness.host.next_deadline() - witness.clock.now())
    witness.host.tick()
    witness.host.pump()
    witness.workers.settle()
    assert len(witness.said()) == 1


def test_a_voter_whose_file_is_lost_starts_on_a_full_disk_and_speaks_when_there_is_room() -> None:
    witness = Witness(SimulatedDisk(capacity=0))
    witness.tell(1, Prepare(BALLOT))
    witness.workers.settle()
    assert witness.said() == [] and read_vote(witness.disk) is None
    witness.disk.capacity = None
    witness.clock.advance(witness.host.next_deadline() - witness.clock.now())
    witness.host.tick()
    witness.host.pump()
    witness.workers.settle()
    (promise,) = witness.said()
    assert isinstance(promise, Promise) and promise.ballot == BALLOT
    again = read_vote(witness.disk.crash(Random(1)))
    assert again is not None and (again.store, again.promised) == (witness.host.replica.store, BALLOT)


def test_a_start_is_on_disk_before_anything_is_said() -> None:
    witness = Witness(SimulatedDisk(), start=7)
    again = Witness(witness.disk.crash(Random(1)), start=8)
    again.tell(1, Prepare(BALLOT))
    again.workers.settle()
    (promise,) = again.said()
    assert isinstance(promise, Promise) and promise.life.before == (0, 7)


def test_an_older_copy_of_the_vote_is_replaced_by_a_new_voter() -> None:
    witness = Witness(SimulatedDisk(), start=7)
    copy = witness.disk.crash(Random(1))
    again = Witness(copy, seed=2, start=9)
    store = again.host.replica
    again.tell(1, Prepare(BALLOT))
    again.tell(1, Outdated(Seen(store, 8, 0)))
    assert again.host.replica != store and again.host.older is not None
    assert "The vote is an older copy: it ended with start 7" in again.host.older
    again.workers.settle()
    assert again.said() == [], "what the older one was about to promise is not promised"
    again.clock.advance(SETTINGS.lease_seconds)
    again.tell(1, Prepare(BALLOT))
    again.workers.settle()
    (promise,) = again.said()
    assert isinstance(promise, Promise) and promise.voter == again.host.replica
    assert Witness(copy.crash(Random(1)), seed=5, start=10).host.replica == again.host.replica, "it is on disk"
