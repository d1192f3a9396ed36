"""Snapshots of a node, and what they wait for."""

from __future__ import annotations

from random import Random

from tocsin.journal.snapshot import snapshot_lsns
from tocsin.message_manager.machine import MessageManager, Settings
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.model.identity import Lsn
from tocsin.node.storage import Storage
from tocsin.node.workers import InlineWorkers
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
