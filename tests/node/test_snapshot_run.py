"""Snapshots of a node, and what they wait for."""

from __future__ import annotations

from random import Random

from tocsin.journal.snapshot import snapshot_lsns
from tocsin.message_manager.destination import Options
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.machine import MessageManager, Settings
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.message_manager.recovery import Recovery
from tocsin.message_manager.state_hash import state_hash
from tocsin.model.destination import Destination, Kind
from tocsin.model.identity import Lsn
from tocsin.node.snapshot_run import SnapshotRun
from tocsin.node.storage import Storage
from tocsin.node.workers import InlineWorkers
from tocsin.replication.journal_work import open_log
from tocsin.replication.log import Entry
from tocsin.testing.disk import SeededRandom, SimulatedDisk

SEGMENT_BYTES = 8 * 1024


class Node:
    """A storage with its manager, driven by hand."""

    def __init__(self, disk: SimulatedDisk, *, sync_every_commit: bool) -> None:
        self.disk = disk
        self.storage = Storage(disk, SeededRandom(3), SEGMENT_BYTES, sync_every_commit=sync_every_commit)
        self.manager: MessageManager = self.storage.open(Settings(), 0.0, 0.0)
        self.workers = InlineWorkers(self.storage.recovered.writer.write)
        self.storage.attach(self.workers, lambda: None, lambda: None)

    def run(self) -> None:
        """Until nothing moves any more."""
        for _ in range(100):
            self.storage.pump()
            if not self.workers.settle() and not self.storage.recovered.journal.pending_bytes():
                return
        raise AssertionError("the node never comes to rest")

    def is_busy(self) -> bool:
        return self.storage.snapshotting

    def lacks_sync(self) -> bool:
        return self.storage.needs_sync

    @property
    def snapshots(self) -> list[int]:
        return snapshot_lsns(self.disk)


def test_a_snapshot_waits_until_the_journal_is_synced() -> None:
    """Else a power failure would leave a snapshot that knows more than the journal, and no server could start."""
    node = Node(SimulatedDisk(), sync_every_commit=False)
    node.run()
    node.storage.begin_snapshot()
    node.run()
    assert node.is_busy() and node.snapshots == []
    assert node.lacks_sync()
    node.storage.want_sync()
    assert not node.lacks_sync(), "one wish is enough"
    node.run()
    assert not node.is_busy()
    assert node.snapshots == [node.storage.synced_lsn]
    for draw in range(20):
        Node(node.disk.crash(Random(draw)), sync_every_commit=True)


def test_with_a_sync_for_every_commit_it_waits_for_nothing_else() -> None:
    node = Node(SimulatedDisk(), sync_every_commit=True)
    node.run()
    assert not node.lacks_sync()
    node.storage.begin_snapshot()
    node.run()
    assert not node.is_busy() and len(node.snapshots) == 1


def test_commits_go_on_while_a_sync_is_wanted() -> None:
    node = Node(SimulatedDisk(), sync_every_commit=False)
    node.run()
    before = node.storage.synced_lsn
    node.storage.want_sync()
    node.manager.ledger.append(RecordKind.FORGET, write_map({"destination": 0, "producer": b""}))
    node.run()
    assert before < node.storage.synced_lsn <= Lsn(node.storage.recovered.journal.durable_lsn)
    assert not node.storage.recovered.journal.pending_bytes()


def test_a_destination_that_is_created_while_a_snapshot_begins_is_not_lost() -> None:
    node = Node(SimulatedDisk(), sync_every_commit=True)
    node.run()
    node.storage.begin_snapshot()
    node.manager.directory.find_or_create(Destination(Kind.QUEUE, "early"), node.manager.ledger)
    node.run()
    assert not node.is_busy()
    assert Node(node.disk.crash(Random(1)), sync_every_commit=True).manager.directory.has("early")


class Group:
    """A standby's state over a journal, and the snapshot that is taken of it."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.opened = open_log(self.disk, SEGMENT_BYTES, SeededRandom(3), lambda kind: False)
        self.log = self.opened.log
        self.directory = Directory(Options())
        self.recovery = Recovery(self.directory, 0.0)
        self.applied = self.safe = 0
        self.over: list[bool] = []
        self.log.promise(65)
        for number in range(1, 7):
            fields = {"id": number, "name": f"q{number}", "kind": int(Kind.QUEUE), "connection": None}
            self.log.append(Entry(64 if number < 3 else 65, RecordKind.CREATE, write_map(fields | Options().fields())))
        while (job := self.log.next_job()) is not None:
            self.log.done(self.opened.work.perform(job))
        self.workers = InlineWorkers(self.opened.recovered.writer.write)

    def apply(self, lsn: int) -> None:
        for entry in self.opened.work.read(self.log.plan_read(self.applied + 1, lsn)):
            self.applied += 1
            self.recovery.apply(self.applied, entry.kind, b"".join(entry.parts))

    def begin(self) -> SnapshotRun:
        recovered = self.opened.recovered
        return SnapshotRun(
            self.disk,
            recovered.journal,
            recovered.identity.journal_id,
            self.directory,
            self.workers,
            lambda: self.applied,
            lambda: self.safe,
            self.over.append,
            self.log.epoch_at,
        )

    def settle(self, run: SnapshotRun) -> None:
        while self.workers.settle():
            pass
        run.step()
        while self.workers.settle():
            pass


def test_a_standby_goes_on_applying_while_its_snapshot_is_taken() -> None:
    group = Group()
    group.apply(2)
    run = group.begin()
    group.workers.settle()
    group.apply(4)
    group.settle(run)
    assert group.over == [] and snapshot_lsns(group.disk) == [], "not all of it is committed"
    group.safe = 4
    group.settle(run)
    assert group.over == [True]
    again = open_log(group.disk, SEGMENT_BYTES, SeededRandom(3), lambda kind: False)
    snapshot = again.recovered.snapshot
    assert snapshot is not None
    assert (snapshot.lsn, snapshot.highest_lsn()) == (2, 4)
    assert (again.log.base_lsn, again.log.epoch_at(2)) == (2, 64)
    directory = Directory(Options())
    recovery = Recovery(directory, 0.0)
    recovery.load(snapshot)
    for lsn, entry in enumerate(again.work.read(again.log.plan_read(3, 4)), 3):
        recovery.apply(lsn, entry.kind, b"".join(entry.parts))
    assert state_hash(directory) == state_hash(group.directory)


def test_a_state_that_is_given_up_leaves_no_snapshot() -> None:
    for steps in range(4):
        group = Group()
        group.apply(3)
        run = group.begin()
        for _ in range(steps):
            group.workers.settle()
        run.abandon()
        group.safe = 9
        group.settle(run)
        assert group.over == [False]
        assert group.disk.list("snapshots") == ()
