"""Members take snapshots for the room that they bring back, also when nobody sends anything any more."""

from __future__ import annotations

from random import Random

from tests.node.group_stage import Stage
from tests.node.test_group_member import level, opened, publish_many

from tocsin.model.limits import ROOM_SNAPSHOT_SECONDS


def segments(stage: Stage) -> list[int]:
    members = [seat for seat in stage.seats.values() if not seat.witness]
    return [len([name for name in seat.disk.list("journal") if name.endswith(".seg")]) for seat in members]


def filled() -> Stage:
    """Far from the next snapshot that many bytes would bring."""
    stage = Stage(segment_bytes=16 * 1024)
    publish_many(stage, opened(stage), 1, 100)
    stage.advance(1.0)
    assert min(segments(stage)) > 5
    return stage


def test_room_of_purged_messages_comes_back_by_itself_at_all_members() -> None:
    stage = filled()
    assert stage.client.administer("destination.purge", destination="queue:orders")["messages"] == 100
    stage.advance(4 * ROOM_SNAPSHOT_SECONDS)
    assert segments(stage) == [2, 2], "the newest one and the reserve"
    stands = stage.primary().member.stands_at
    stage.advance(3 * ROOM_SNAPSHOT_SECONDS)
    assert stage.primary().member.stands_at == stands, "then it is quiet again"
    for seat in stage.seats.values():
        seat.crash()
        seat.start()
    stage.elect()
    stage.advance(6.0)
    assert level(stage)


def test_after_a_restart_too() -> None:
    stage = filled()
    stage.client.administer("destination.purge", destination="queue:orders")
    for seat in stage.seats.values():
        seat.crash()
        seat.start()
    stage.elect()
    stage.advance(4 * ROOM_SNAPSHOT_SECONDS)
    assert segments(stage) == [2, 2]


def test_what_is_not_purged_stays() -> None:
    stage = filled()
    before = segments(stage)
    stage.advance(3 * ROOM_SNAPSHOT_SECONDS)
    assert segments(stage) == before
    assert not any(seat.disk.list("snapshots") for seat in stage.seats.values())
    assert stage.primary().disk.crash(Random(1)).list("journal")
