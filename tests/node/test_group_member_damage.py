"""Damage on the disk of a member: it gets a copy from another one and is mended; readers notice nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from tests.node.group_stage import CONNECTION, SESSION, Seat, Stage, bodies, publish

from tocsin.cluster.commands import ConsumerEnded, OpenConsumer, Reply, Unreadable
from tocsin.journal.jobs import Location
from tocsin.journal.record import HEADER_BYTES, record_bytes
from tocsin.model.destination import parse_destination
from tocsin.model.errors import DataDamaged, JournalDamaged
from tocsin.model.limits import MEND_RETRY_SECONDS, SCRUB_DELAY_SECONDS
from tocsin.node.group_copies import GroupCopies
from tocsin.node.mending import Damaged
from tocsin.node.placing import locate
from tocsin.replication.messages import CopyGiven, CopyWanted
from tocsin.runtime.ports import Buffer
from tocsin.testing.disk import SimulatedDisk

NEWS, ORDERS = "topic:news", "queue:orders"
BATCHES, EACH = 30, 4
BODIES = [f"{number:0300d}" for number in range(BATCHES * EACH)]


def filled(destination: str) -> Stage:
    """A group of two members and a witness; all but the last blocks of the retained topic are in its own files."""
    stage = Stage(2, 1, segment_bytes=16 * 1024, cache_bytes=1)
    stage.elect()
    fill(stage, destination)
    return stage


def fill(stage: Stage, destination: str) -> None:
    client = stage.client
    client.administer("destination.create", destination=destination, retained=destination == NEWS)
    number = client.open_producer(destination)["destination"]
    for batch in range(BATCHES):
        sent = BODIES[batch * EACH : (batch + 1) * EACH]
        client.send(publish(number, *sent, first=batch * EACH + 1, name=destination))
    stage.advance(2)


def place(seat: Seat, destination: str, offset: int) -> Location:
    store = seat.member._disk.store
    state = store.manager.directory.find(parse_destination(destination))
    row = state.log.row_at(offset)
    where = locate(store, state.id, state.log.lsns[row - state.log.base], state.log.span(row)[0])
    assert where is not None
    return where


def record(seat: Seat, where: Location) -> bytes:
    return seat.disk.open(where.file).read(where.position, record_bytes(where.skip + where.length))


def damage(seat: Seat, destination: str, offset: int, at: int = 500) -> tuple[Location, bytes]:
    """Turns a bit of a record; returns where it is, and how it was."""
    where = place(seat, destination, offset)
    assert where.file.startswith("streams/" if destination == NEWS else "journal/")
    before = record(seat, where)
    seat.disk.flip(where.file, 8 * (where.position + at) + 1)
    assert record(seat, where) != before
    return where, before


def read_all(stage: Stage, destination: str, start: int = 0) -> list[Reply]:
    wanted = {"offset": start, "end": BATCHES * EACH}
    command = OpenConsumer(
        stage.client.request(), SESSION, 9, parse_destination(destination), CONNECTION, None, messages=10_000,
        bytes=1 << 40, mode="replay", start=wanted,
    )  # fmt: skip
    found = list(stage.client.send(command))
    stage.client.replies = []
    stage.advance(1.5)
    return found + stage.client.replies


def ended(replies: list[Reply]) -> list[ConsumerEnded]:
    return [reply for reply in replies if isinstance(reply, ConsumerEnded)]


@pytest.mark.parametrize("destination", [NEWS, ORDERS])
@pytest.mark.parametrize("at", [5, 45, 500])
def test_a_damaged_record_of_the_primary_is_mended_by_the_backups_copy(destination: str, at: int) -> None:
    stage = filled(destination)
    where, before = damage(stage.primary(), destination, 41, at)
    replies = read_all(stage, destination)
    assert bodies(replies) == BODIES and ended(replies)[0].error is None
    assert record(stage.primary(), where) == before
    mending = stage.primary().member._disk.store.mending
    assert (mending.found, mending.mended, mending.lost) == (1, 1, {})


def test_the_primarys_consumers_notice_nothing() -> None:
    stage = filled(ORDERS)
    damage(stage.primary(), ORDERS, 41)
    replies = stage.client.open_consumer(ORDERS)
    assert sorted(bodies(replies)) == BODIES
    assert not [reply for reply in replies if isinstance(reply, Unreadable)]


@pytest.mark.parametrize("destination", [NEWS, ORDERS])
def test_damage_of_a_backup_is_found_and_mended_before_it_leads(destination: str) -> None:
    stage = filled(destination)
    where, before = damage(stage.backup(), destination, 41)
    stage.advance(SCRUB_DELAY_SECONDS + 5)
    assert record(stage.backup(), where) == before
    assert stage.in_sync() == [1, 2]


def test_a_record_whose_header_is_gone_is_served_from_the_copy() -> None:
    stage = filled(NEWS)
    primary = stage.primary()
    where = place(primary, NEWS, 41)
    file = primary.disk.open(where.file)
    file.write(where.position, [bytes(HEADER_BYTES)])
    replies = read_all(stage, NEWS)
    assert bodies(replies) == BODIES and ended(replies)[0].error is None


class Behind:
    """Another member whose log has something else in that place, as long and for the same destination."""

    def __init__(self, copy: bytes) -> None:
        self._copy = copy

    def want(self, damaged: Damaged, got: Callable[[Buffer | None], None]) -> None:
        self._got = got
        got(self._copy)

    def want_another(self, damaged: Damaged) -> None:
        self._got(None)

    def enough(self, damaged: Damaged) -> None: ...


def test_a_record_that_only_looks_like_the_lost_one_is_not_served() -> None:
    stage = filled(ORDERS)
    primary = stage.primary()
    where, other = place(primary, ORDERS, 41), place(primary, ORDERS, 45)
    assert where.length == other.length
    copy = record(primary, other)[HEADER_BYTES : HEADER_BYTES + other.length]
    primary.member._disk.store.mending._copies = Behind(copy)
    primary.disk.open(where.file).write(where.position, [bytes(HEADER_BYTES)])
    replies = read_all(stage, ORDERS)
    assert bodies(replies) == BODIES[:40]
    assert isinstance(ended(replies)[0].error, DataDamaged)


@pytest.mark.parametrize("place_in_block", [0, 12, 300])
def test_a_copy_that_is_no_block_is_not_taken(monkeypatch: pytest.MonkeyPatch, place_in_block: int) -> None:
    """The disk has no check for it any more, so whatever another member says is looked at."""
    stage = filled(NEWS)
    primary = stage.primary()
    where = place(primary, NEWS, 41)
    primary.disk.open(where.file).write(where.position, [bytes(HEADER_BYTES)])
    given = GroupCopies.received

    def received(copies: GroupCopies, sender: int, message: CopyWanted | CopyGiven) -> None:
        if isinstance(message, CopyGiven):
            data = bytearray(message.data)
            data[int.from_bytes(data[4:8], "little") + place_in_block] ^= 255
            message = replace(message, data=bytes(data))
        given(copies, sender, message)

    monkeypatch.setattr(GroupCopies, "received", received)
    replies = read_all(stage, NEWS)
    assert isinstance(ended(replies)[0].error, DataDamaged)
    assert bodies(read_all(stage, NEWS, 44)) == BODIES[44:]


@pytest.mark.parametrize("destination", [NEWS, ORDERS])
def test_when_all_copies_are_damaged_the_reader_is_told_and_goes_on_behind_them(destination: str) -> None:
    stage = filled(destination)
    for seat in (stage.primary(), stage.backup()):
        damage(seat, destination, 41)
    replies = read_all(stage, destination)
    assert bodies(replies) == BODIES[:40]
    error = ended(replies)[0].error
    assert isinstance(error, DataDamaged) and f"Offsets 40 to 44 of {destination}" in str(error)
    assert bodies(read_all(stage, destination, 44)) == BODIES[44:]
    assert stage.in_sync() == [1, 2]


def test_what_no_member_could_give_is_mended_when_one_is_back() -> None:
    stage = filled(NEWS)
    where, before = damage(stage.primary(), NEWS, 41)
    backup = stage.backup().node
    stage.cut_off = {backup}
    assert isinstance(ended(read_all(stage, NEWS))[0].error, DataDamaged)
    stage.cut_off = set()
    stage.advance(MEND_RETRY_SECONDS + 5)
    assert record(stage.primary(), where) == before
    assert bodies(read_all(stage, NEWS)) == BODIES


def test_a_member_that_is_behind_gets_what_is_damaged_at_the_primary() -> None:
    stage = Stage(3, 0, segment_bytes=16 * 1024, cache_bytes=1)
    stage.elect()
    number = stage.client.open_producer()["destination"]
    away = next(node for node in (3, 2) if node != stage.primary().node)
    stage.cut_off = {away}
    for batch in range(BATCHES):
        sent = BODIES[batch * EACH : (batch + 1) * EACH]
        stage.client.send(publish(number, *sent, first=batch * EACH + 1))
        stage.advance(0.1)
    stage.advance(3)
    where, before = damage(stage.primary(), ORDERS, 41)
    stage.cut_off = set()
    stage.advance(5)
    assert stage.in_sync() == [1, 2, 3]
    assert record(stage.primary(), where) == before


@pytest.mark.parametrize("destination", [NEWS, ORDERS])
def test_a_new_disk_is_filled_though_the_primarys_was_damaged(destination: str) -> None:
    stage = Stage(3, 0, segment_bytes=16 * 1024, cache_bytes=1, snapshot_bytes=8 * 1024)
    stage.elect()
    fill(stage, destination)
    primary = stage.primary()
    empty = next(seat for seat in stage.seats.values() if seat is not primary)
    empty.crash()
    empty.disk = SimulatedDisk()
    where, before = damage(primary, destination, 41)
    stage.advance(5)
    empty.start()
    stage.advance(150)
    assert stage.in_sync() == [1, 2, 3]
    stage.advance(SCRUB_DELAY_SECONDS)
    assert record(primary, where) == before


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("destination", [NEWS, ORDERS])
def test_bits_turn_anywhere_and_every_row_is_read(destination: str, seed: int) -> None:
    """One at a time, in records of sealed files of any member; the role of the primary moves meanwhile."""
    random = Random(seed)
    stage = filled(destination)
    for turn in range(12):
        seat = random.choice([stage.primary(), stage.backup()])
        where = place(seat, destination, random.randrange(BATCHES * EACH - 40))
        size = record_bytes(where.skip + where.length)
        seat.disk.flip(where.file, 8 * where.position + random.randrange(8 * size))
        replies = read_all(stage, destination)
        assert (bodies(replies), ended(replies)[0].error) == (BODIES, None)
        if turn % 4 == 3:
            # What nobody reads at a backup is found by the time it leads.
            for each in (stage.primary(), stage.backup()):
                each.member._disk.scrub.hurry()
            stage.advance(3)
            assert stage.primary().member.hand_over()
            stage.advance(3)


@pytest.mark.parametrize("offset", [1, 41, BATCHES * EACH - 1])
def test_a_member_that_applies_its_log_anew_gets_what_is_damaged_in_it(offset: int) -> None:
    stage = filled(ORDERS)
    old = stage.primary()
    where, before = damage(old, ORDERS, offset)
    assert old.member.hand_over()
    stage.advance(5)
    assert stage.primary() is not old
    assert record(old, where) == before
    assert old.member.applied == stage.primary().member.applied
    assert stage.in_sync() == [1, 2]


def test_a_member_whose_log_nobody_can_mend_says_what_to_do() -> None:
    stage = filled(ORDERS)
    for seat in (stage.primary(), stage.backup()):
        damage(seat, ORDERS, 41)
    assert stage.primary().member.hand_over()
    with pytest.raises(JournalDamaged, match=r"no other member could give it\. Move the group's folder away"):
        stage.advance(5)
