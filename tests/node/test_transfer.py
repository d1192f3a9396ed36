"""A snapshot with all that belongs to it goes from one member's disk to another's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from tests.message_manager.dialogue import check, drain, dump
from tests.message_manager.test_recovery import busy_life

from tocsin.journal import inspect, reader, staging
from tocsin.journal.compaction import run_maintenance
from tocsin.journal.jobs import DropSegment, RewriteSegment
from tocsin.journal.reader import BlockReader
from tocsin.journal.recovery import recover
from tocsin.journal.segment import Identity
from tocsin.journal.snapshot import Snapshot
from tocsin.message_manager.destination import Options
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.machine import Settings
from tocsin.message_manager.recovery import Recovery
from tocsin.message_manager.snapshots import destination_section, directory_section
from tocsin.message_manager.state_hash import state_hash
from tocsin.model.identity import Lsn, Offset
from tocsin.model.limits import KIB, PACKAGE_IDLE_SECONDS
from tocsin.node import packing, transfer
from tocsin.node.packing import OUTGOING
from tocsin.node.snapshot_run import SnapshotRun
from tocsin.node.transfer import INCOMING_PACKAGE, Transfer
from tocsin.node.workers import InlineWorkers
from tocsin.replication import package, package_reader
from tocsin.replication.catch_up import whole_digest
from tocsin.replication.data_pool import digest_of
from tocsin.replication.events import (
    ChunkStaged,
    InstallSnapshot,
    ReadSnapshot,
    SnapshotInstalled,
    SnapshotRead,
    SnapshotRefused,
    StageChunk,
)
from tocsin.replication.package_reader import PackageReader
from tocsin.runtime.ports import Buffer
from tocsin.testing.clock import VirtualClock
from tocsin.testing.disk import Fault, SeededRandom, SimulatedCrash, SimulatedDisk, SimulatedFile
from tocsin.testing.driver import Driver, Setup

SETUP = Setup(segment_bytes=8 * KIB, manager=Settings(defaults=Options(redelivery_limit=3)))
CHUNK_BYTES = 4 * KIB


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (package, transfer):
        monkeypatch.setattr(module, "SNAPSHOT_CHUNK_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(packing, "PACKAGE_STEP_RECORDS", 7)
    monkeypatch.setattr(packing, "PACKAGE_STEP_BYTES", 2 * KIB)


class Giver:
    """A server's state as a member of a group would have it, and its transfers."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.disk = driver, driver.disk
        self.recovered = driver.storage.recovered
        self.workers = InlineWorkers(self.recovered.writer.write)
        self.run: SnapshotRun | None = None
        self.base = 0
        self.snapshots_fail = False
        self.transfer = Transfer(
            self.disk,
            self.workers,
            self.recovered.journal,
            self.recovered.identity,
            driver.storage.streams,
            SETUP.segment_bytes,
            self.take_snapshot,
            lambda: self.base,
        )

    def take_snapshot(self, over: Callable[[bool], None]) -> None:
        journal = self.recovered.journal
        if self.snapshots_fail:
            over(False)
            return
        self.run = SnapshotRun(
            self.disk,
            journal,
            self.recovered.identity.journal_id,
            self.driver.manager.directory,
            self.workers,
            lambda: journal.last_lsn,
            lambda: journal.durable_lsn,
            over,
            lambda lsn: 0,
        )

    def settle(self) -> None:
        while self.workers.settle():
            pass
        if self.run is not None:
            self.run.step()
        while self.workers.settle():
            pass

    def ask(self, lsn: int = 0, index: int = 0, *, steps: int | None = None) -> SnapshotRead:
        answers: list[SnapshotRead] = []
        self.transfer.read_snapshot(ReadSnapshot(9, lsn, index), answers.append)
        if steps is None:
            self.settle()
        else:
            for _ in range(steps):
                self.workers.settle()
        assert len(answers) == 1
        return answers[0]

    def kept_behind(self) -> int | None:
        return self.transfer.keep_behind

    def chunks(self) -> tuple[SnapshotRead, list[bytes]]:
        """The first answer with a chunk, and all chunks."""
        assert self.ask().count == 0, "it is made when it is asked for"
        first = self.ask()
        assert first.count > 0, self.transfer.problem
        data = [bytes(self.ask(first.lsn, index).data) for index in range(first.count)]
        assert whole_digest([digest_of(chunk) for chunk in data]) == first.whole
        return first, data


class Taker:
    """The disk that is filled."""

    def __init__(self, disk: SimulatedDisk, identity: Identity | None = None) -> None:
        self.disk = disk
        if identity is None:
            recovered = recover(disk, segment_bytes=SETUP.segment_bytes, random=SeededRandom(77))
            assert list(recovered.replay) is not None
            recovered.writer.close()
            identity = recovered.identity
        self.identity = identity
        self.workers = InlineWorkers(lambda job: pytest.fail("nothing is written here"))
        none: Any = None
        journal = recover_nothing()
        self.transfer = Transfer(
            disk, self.workers, journal, identity, none, SETUP.segment_bytes, none, lambda: 0
        )  # fmt: skip
        self.events: list[object] = []

    def stage(self, lsn: int, index: int, data: bytes) -> object:
        self.transfer.stage(StageChunk(lsn, index, data), self.events.append)
        self.workers.settle()
        return self.events[-1]

    def install(self, first: SnapshotRead, data: list[bytes]) -> object:
        for index, chunk in enumerate(data):
            answer = self.stage(first.lsn, index, chunk)
            if answer != ChunkStaged(first.lsn, index):
                return answer
        self.transfer.install(InstallSnapshot(first.lsn, first.epoch, len(data)), self.events.append)
        while self.workers.settle():
            pass
        return self.events[-1]


def recover_nothing() -> Any:
    return recover(SimulatedDisk(), segment_bytes=SETUP.segment_bytes, random=SeededRandom(1)).journal


def leave(driver: Driver) -> None:
    for client in list(driver.clients.values()):
        driver.hang_up(client)


def fill(driver: Driver, seed: int) -> None:
    """Queues half consumed, delayed messages, durable subscriptions, retained topics partly moved to streams; and
    segments that were compacted.
    """
    busy_life(driver, seed, 60, snapshots=True)
    leave(driver)
    client = driver.connect()
    client.request("destination.create", destination="topic:long", retained=True)
    producer = client.session().producer("topic:long")
    for number in range(30):
        producer.send(b"%03d" % number * 300)
    busy_life(driver, seed + 50, 20, snapshots=True)
    leave(driver)


def filled(seed: int, disk: SimulatedDisk | None = None) -> Driver:
    driver = Driver(SETUP, disk or SimulatedDisk(), VirtualClock())
    fill(driver, seed)
    return driver


def blocks(driver: Driver, *, trimmed: bool = False) -> dict[tuple[str, int], bytes]:
    """Every block that is still needed, read from disk, by topic or queue and LSN. `trimmed`: but for those that
    retention has dropped meanwhile, by a record that is yet to come.
    """
    found: dict[tuple[str, int], bytes] = {}
    reader = BlockReader(driver.disk)
    journal, streams = driver.storage.recovered.journal, driver.storage.streams
    for state in driver.manager.directory:
        log = state.log
        wanted = [
            (log.lsns[index], log.firsts[index])
            for index in range(len(log))
            if state.options.retained or log.needed[index]
        ]
        wanted += [(batch.lsn, 1 << 62) for batch in state.delayed.all()]
        for lsn, first in wanted:
            where = journal.locate(Lsn(lsn))
            if first < state.stream_end:
                in_stream = streams.find_offset(state.id, Offset(first))
                where = in_stream[0] if in_stream is not None and in_stream[1] == first else None
                if where is None and trimmed:
                    continue
            assert where is not None, f"{state.address} lacks record {lsn} at {first}"
            found[state.address.name, lsn] = reader.read([where])[0]
    reader.close()
    return found


def moved(driver: Driver) -> int:
    return sum(int(driver.storage.streams.end_offset(stream)) for stream in driver.storage.streams.streams())


def opened(driver: Driver, disk: SimulatedDisk) -> Driver:
    """A server on a disk, in the same moment as another one."""
    clock = VirtualClock()
    clock.advance(driver.clock.now() - clock.now())
    return Driver(driver.setup, disk, clock, driver.boot + 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("into", ["an empty disk", "a disk with another state"])
def test_a_member_is_filled(seed: int, into: str) -> None:
    source = filled(seed)
    target = SimulatedDisk()
    if into != "an empty disk":
        Giver(filled(seed + 20, target))
    giver = Giver(source)
    first, data = giver.chunks()
    assert len(data) > 5 and first.lsn == source.storage.recovered.journal.last_lsn
    assert min(contents(giver.disk)) > 0
    assert Taker(target).install(first, data) == SnapshotInstalled(first.lsn)
    assert list(inspect.check(target)) == []
    original, copy = opened(source, source.disk.crash(Random(1))), opened(source, target.crash(Random(1)))
    assert moved(copy) > 0
    assert dump(copy.manager) == dump(original.manager)
    assert state_hash(copy.manager.directory) == state_hash(original.manager.directory)
    assert blocks(copy) == blocks(original)
    assert len(blocks(copy)) > 10
    check(copy.manager)
    # And it goes on from there.
    fill_more(copy, seed)
    assert drain(copy, "queue:a") is not None


def fill_more(driver: Driver, seed: int) -> None:
    busy_life(driver, seed + 70, 30, snapshots=True)
    leave(driver)
    again = driver.crash(Random(seed))
    assert blocks(again)
    check(again.manager)


def contents(disk: SimulatedDisk) -> tuple[int, int, int]:
    """How many sections, live records and blocks of streams the package has."""
    package = PackageReader(disk, OUTGOING)
    package.verify()
    entries = [piece for piece in package.streams() if piece.entry is not None]
    counts = len(list(package.sections())), len(list(package.live())), len(entries)
    package.close()
    return counts


def test_records_that_follow_the_snapshot_travel_too() -> None:
    """What happens while the snapshot is taken is in the package, up to the newest section."""
    source = filled(1)
    giver = Giver(source)
    giver.ask(steps=2)
    session = source.connect().session()
    session.producer("queue:a").send("while it is taken", "and more")
    giver.settle()
    first = giver.ask()
    data = [bytes(giver.ask(first.lsn, index).data) for index in range(first.count)]
    target = SimulatedDisk()
    assert Taker(target).install(first, data) == SnapshotInstalled(first.lsn)
    copy = recover(target, segment_bytes=SETUP.segment_bytes, random=SeededRandom(5))
    replayed = [record[0] for record in copy.replay]
    assert copy.snapshot is not None and copy.snapshot.lsn < first.lsn
    assert replayed == list(range(copy.snapshot.lsn + 1, first.lsn + 1))


class Follower:
    """Applies every record of a server from now on, and notes the hash of the state after each."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.applied = int(driver.storage.recovered.journal.last_lsn)
        directory = driver.manager.directory
        sections = [directory_section(directory, self.applied)]
        sections += [destination_section(state, self.applied) for state in directory]
        self.directory = Directory(Options())
        self.recovery = Recovery(self.directory, 0.0)
        self.recovery.load(Snapshot(Lsn(self.applied), tuple(sections)))
        self.hashes = {self.applied: state_hash(self.directory)}
        self.payloads = {lsn: payload for (_, lsn), payload in blocks(driver).items()}

    def follow(self) -> None:
        journal = self.driver.storage.recovered.journal
        locations = [journal.locate(Lsn(lsn)) for lsn in range(self.applied + 1, journal.last_lsn + 1)]
        source = BlockReader(self.driver.disk)
        for kind, _, payload in source.read_records([where for where in locations if where is not None]):
            self.applied += 1
            self.recovery.apply(self.applied, kind, payload)
            self.hashes[self.applied] = state_hash(self.directory)
            self.payloads[self.applied] = payload
        source.close()
        assert self.applied == journal.last_lsn


@pytest.mark.parametrize("seed", range(6))
def test_a_package_is_made_while_everything_goes_on(seed: int) -> None:
    """It stands for one moment, although it was put together in many; and no block is taken away meanwhile."""
    random = Random(seed)
    driver = filled(seed)
    follower, giver = Follower(driver), Giver(driver)
    session = driver.connect().session()
    producers = [session.producer(name) for name in ("queue:a", "queue:b", "topic:kept", "topic:long")]
    consumer = session.consumer("queue:a")
    giver.ask(steps=1)
    for _ in range(2000):
        if giver.transfer._package is not None:
            break
        if random.random() < 0.3:
            random.choice(producers).send(b"%d" % random.randrange(100) * 100)
        held = list(consumer.outstanding.values())
        if held and random.random() < 0.3:
            consumer.ack(*[message for message in held if random.random() < 0.7])
        if random.random() < 0.05:
            driver.connect().request("destination.purge", destination=random.choice(("topic:kept", "queue:b")))
        follower.follow()
        giver.workers.settle()
        if giver.run is not None:
            giver.run.step()
    first = giver.ask()
    assert follower.applied > first.lsn > min(follower.hashes), giver.transfer.problem
    target = SimulatedDisk()
    data = [bytes(giver.ask(first.lsn, index).data) for index in range(first.count)]
    assert Taker(target).install(first, data) == SnapshotInstalled(first.lsn)
    recovered = recover(target, segment_bytes=SETUP.segment_bytes, random=SeededRandom(5))
    directory = Directory(Options())
    recovery = Recovery(directory, 0.0)
    assert recovered.snapshot is not None
    recovery.load(recovered.snapshot)
    for lsn, kind, _, payload in recovered.replay:
        recovery.apply(lsn, kind, payload)
    assert state_hash(directory) == follower.hashes[first.lsn]
    recovered.writer.close()
    for (_, number), block in blocks(opened(driver, target), trimmed=True).items():
        assert number > first.lsn or block == follower.payloads[number]


def test_the_journal_is_held_until_nobody_asks_any_more() -> None:
    giver = Giver(filled(2))
    journal = giver.recovered.journal

    def shrinking() -> list[object]:
        done = []
        while (job := journal.maintenance()) is not None:
            journal.maintained(run_maintenance(giver.disk, job, SETUP.segment_bytes))
            done.append(job)
        return [job for job in done if isinstance(job, DropSegment | RewriteSegment)]

    first, _ = giver.chunks()
    giver.driver.connect().request("destination.purge", destination="queue:a")
    giver.driver.connect().request("destination.purge", destination="topic:long")
    for _ in range(2):
        over: list[bool] = []
        giver.take_snapshot(over.append)
        giver.settle()
        giver.driver.connect().session().producer("queue:a").send("more")
        assert over == [True]
    assert giver.kept_behind() == first.lsn
    assert shrinking() == []
    giver.transfer.tick(PACKAGE_IDLE_SECONDS)
    assert giver.ask(first.lsn).count > 0
    giver.transfer.tick(2 * PACKAGE_IDLE_SECONDS)
    assert giver.ask(first.lsn).count > 0
    giver.transfer.tick(3 * PACKAGE_IDLE_SECONDS + 1)
    giver.settle()
    assert giver.kept_behind() is None
    assert OUTGOING not in giver.disk.list("")
    assert shrinking() != []
    gone = giver.ask(first.lsn)
    assert (gone.lsn, gone.count) == (first.lsn, 0)


def test_an_old_package_is_made_anew() -> None:
    giver = Giver(filled(3))
    first, _ = giver.chunks()
    giver.driver.connect().session().producer("queue:a").send("more")
    giver.base = first.lsn + 1
    assert giver.ask().count == 0
    again = giver.ask()
    assert again.count > 0 and again.lsn > first.lsn


def test_without_a_snapshot_there_is_no_package_for_a_while() -> None:
    giver = Giver(filled(3))
    giver.snapshots_fail = True
    assert giver.ask() == SnapshotRead(9, 0, 0, 0, b"", b"")
    giver.snapshots_fail = False
    assert giver.ask().lsn == 0, "not at once"
    giver.transfer.tick(PACKAGE_IDLE_SECONDS + 1)
    assert giver.ask().lsn > 0
    assert giver.ask().count > 0


def test_a_full_disk_makes_no_package_and_is_left_as_it_was() -> None:
    giver = Giver(filled(3))
    giver.disk.capacity = giver.disk._used(giver.disk._root) + 20 * KIB
    assert giver.ask().count == 0
    assert giver.transfer.problem
    assert OUTGOING not in giver.disk.list("")
    assert giver.transfer.keep_behind is None


def test_leftovers_go_at_a_start() -> None:
    disk = SimulatedDisk()
    for name in (OUTGOING, INCOMING_PACKAGE):
        disk.create(name, 10).close()
    Taker(disk)
    assert not [name for name in disk.list("") if name.endswith(".package")]


# ---- the taking end


def package_of(seed: int) -> tuple[Driver, SnapshotRead, list[bytes]]:
    source = filled(seed)
    first, data = Giver(source).chunks()
    return source, first, data


def test_chunks_that_are_damaged_on_the_disk_are_refused() -> None:
    _, first, data = package_of(4)
    random = Random(4)
    for _ in range(40):
        index = random.randrange(len(data))
        bad = bytearray(data[index])
        bad[random.randrange(len(bad))] ^= 1 << random.randrange(8)
        disk = SimulatedDisk()
        taker = Taker(disk)
        before = disk.list("journal"), disk.list("snapshots")
        assert taker.install(first, [*data[:index], bytes(bad), *data[index + 1 :]]) == SnapshotRefused(first.lsn)
        assert (disk.list("journal"), disk.list("snapshots")) == before
        assert INCOMING_PACKAGE not in disk.list("")


def test_chunks_that_are_missing_are_refused() -> None:
    _, first, data = package_of(4)
    taker = Taker(SimulatedDisk())
    assert taker.install(first, data[:-1]) == SnapshotRefused(first.lsn)
    assert taker.stage(first.lsn, 1, data[1]) == SnapshotRefused(first.lsn)
    taker.stage(first.lsn, 0, data[0])
    assert taker.stage(first.lsn, 2, data[2]) == SnapshotRefused(first.lsn)
    wrong = SnapshotRead(9, first.lsn + 1, first.epoch, first.count, first.whole, b"")
    assert taker.install(wrong, data) == SnapshotRefused(first.lsn + 1)


def test_without_room_the_journal_is_as_it_was() -> None:
    source, first, data = package_of(4)
    size = sum(map(len, data))
    for room in (0, size // 2, size + 10 * KIB, 2 * size):
        disk = SimulatedDisk()
        taker = Taker(disk)
        disk.capacity = disk._used(disk._root) + room
        assert taker.install(first, data) == SnapshotRefused(first.lsn)
        assert not [name for name in disk.list("journal") + disk.list("snapshots") if name.endswith(".incoming")]
        disk.capacity = None
        assert Taker(disk, taker.identity).install(first, data) == SnapshotInstalled(first.lsn)
        assert blocks(opened(source, disk))


def test_a_crash_at_every_operation_of_an_install() -> None:
    source, first, data = package_of(0)
    original = opened(source, source.disk.crash(Random(1)))
    wanted, wanted_blocks = dump(original.manager), blocks(original)
    other = SimulatedDisk()
    filled(30, other).storage.close()
    base = opened(source, other.crash(Random(2)))
    old = dump(base.manager)
    seen = set()
    operation, done = 0, False
    while not done:
        disk = other.crash(Random(2))
        taker = Taker(disk)
        for index, chunk in enumerate(data):
            taker.stage(first.lsn, index, chunk)
        disk.faults[disk.operations + operation] = Fault.CRASH
        with suppress(SimulatedCrash):
            assert taker.install(first, data) == SnapshotInstalled(first.lsn)
            done = True
        again = opened(source, disk.crash(Random(operation)))
        if dump(again.manager) == old and not done:
            seen.add("old")
        else:
            seen.add("new")
            assert dump(again.manager) == wanted
            assert blocks(again) == wanted_blocks
        operation += 3
    assert seen == {"old", "new"}


class CountingDisk(SimulatedDisk):
    """Knows the largest piece that was read or written at once while it counted."""

    def __init__(self) -> None:
        super().__init__()
        self.counting = False
        self.largest = self.written = 0

    def create(self, name: str, size: int) -> SimulatedFile:
        return CountingFile(super().create(name, size), self)

    def open(self, name: str) -> SimulatedFile:
        return CountingFile(super().open(name), self)


class CountingFile(SimulatedFile):
    def __init__(self, file: SimulatedFile, disk: CountingDisk) -> None:
        super().__init__(disk, file._inode, file._name)
        self._counter = disk

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        super().write(position, parts)
        self._count(sum(map(len, parts)))
        self._counter.written += sum(map(len, parts))

    def read(self, position: int, length: int) -> bytes:
        data = super().read(position, length)
        self._count(len(data))
        return data

    def _count(self, size: int) -> None:
        if self._counter.counting:
            self._counter.largest = max(self._counter.largest, size)


def test_memory_is_bounded_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far more goes over than is ever read or written at once."""
    monkeypatch.setattr(package_reader, "_READ_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(staging, "_PIECE_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(reader, "READ_BYTES_MAX", CHUNK_BYTES)
    disk, target = CountingDisk(), CountingDisk()
    driver = Driver(Setup(segment_bytes=64 * KIB), disk, VirtualClock())
    client = driver.connect()
    client.request("destination.create", destination="topic:long", retained=True)
    session = client.session()
    for destination in ("queue:a", "topic:long"):
        producer = session.producer(destination)
        for number in range(250):
            producer.send(b"%03d" % number + b"x" * KIB)
    giver = Giver(driver)
    disk.counting = True
    first, data = giver.chunks()
    assert sum(map(len, data)) > 500 * KIB
    assert disk.largest <= 20 * KIB, "a section with 250 rows is the largest"
    taker = Taker(target)
    target.counting = True
    assert taker.install(first, data) == SnapshotInstalled(first.lsn)
    assert target.written > 1000 * KIB
    assert target.largest <= 20 * KIB
    target.counting = False
    assert blocks(opened(driver, target)) == blocks(driver)
