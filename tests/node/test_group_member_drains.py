"""What drains hold stays held through the failures of a group."""

from __future__ import annotations

from typing import Any

from tests.node.group_stage import CM, ScriptedManager, Stage, answer, bodies
from tests.node.test_group_member import level, opened

from tocsin.cluster.commands import Administer
from tocsin.testing.disk import SimulatedDisk

D: dict[str, Any] = {"destination": "queue:orders", "drain": "d"}


def take(client: ScriptedManager, after: int, **more: Any) -> list[list[int]]:
    return list(client.administer("drain.take", **D, after=after, **more)["ranges"])


def test_a_new_primary_holds_what_drains_hold() -> None:
    stage = Stage()
    orders = opened(stage)
    client = stage.client
    client.publish(orders, *"abcdef")
    assert take(client, 0, messages=2) == [[0, 2]]
    assert take(client, 1, messages=2) == [[2, 4]]
    assert client.administer("drain.finish", **D, upto=1)["messages"] == 2
    old = stage.primary()
    old.crash()
    stage.elect()
    assert [each["ranges"] for each in client.administer("drain.list", **D)["takes"]] == [[[2, 4]]]
    assert take(client, 1) == [[2, 4]]
    assert bodies(client.open_consumer()) == ["e", "f"]
    client.administer("drain.release", **D)
    assert bodies(client.replies) == ["c", "d"]
    old.start()
    stage.advance(3.0)
    assert level(stage)


def test_the_time_to_live_begins_anew_with_another_primary() -> None:
    stage = Stage()
    orders = opened(stage)
    client = stage.client
    client.publish(orders, "a")
    take(client, 0, seconds=20)
    stage.advance(15.0)
    client.administer("drain.list", **D)
    stage.primary().crash()
    stage.elect()
    stage.advance(15.0)
    assert client.administer("destination.show", destination="queue:orders")["in_flight"] == 1
    stage.advance(10.0)
    assert client.administer("destination.show", destination="queue:orders")["in_flight"] == 0


def test_a_member_that_is_filled_from_a_snapshot_knows_the_drains() -> None:
    stage = Stage(segment_bytes=4096, snapshot_bytes=8192)
    orders = opened(stage)
    client = stage.client
    sequence = 1
    for round_ in range(30):
        client.publish(orders, "x" * 500, "y", first=sequence)
        sequence += 2
        if round_ % 3 == 0:
            take(client, round_ // 3, messages=3)
        if round_ % 6 == 0:
            client.administer("drain.finish", **D, upto=round_ // 6)
    backup = stage.backup()
    backup.crash()
    stage.advance(3.0)
    backup.disk = SimulatedDisk()
    backup.start()
    stage.advance(8.0)
    assert stage.in_sync() == [1, 2] and level(stage)
    before = client.administer("drain.list", **D)["takes"]
    assert before
    stage.primary().crash()
    stage.elect()
    assert client.administer("drain.list", **D)["takes"] == before


def test_a_drain_takes_nothing_before_all_client_managers_have_said_what_they_hold() -> None:
    stage = Stage(client_managers=(CM, 41))
    for seat in stage.seats.values():
        if not seat.witness:
            seat.member.node_up(CM, 7)
            seat.member.node_up(41, 1)
    orders = opened(stage)
    client = stage.client
    client.publish(orders, "a", "b")
    client.administer("link.complete")
    client.send(Administer(client.request(), "drain.take", {**D, "after": 0}))
    assert client.replies == []
    stage.primary().member.node_gone(41, 1)
    stage.settle()
    assert answer(client.replies)["ranges"] == [[0, 2]]
