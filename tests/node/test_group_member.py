"""Members of a group with real state: what client managers see of them, through failures."""

from __future__ import annotations

from tests.node.group_stage import CM, Stage, answer, bodies, publish

from tocsin.cluster.commands import OpenConsumer, Stored
from tocsin.cluster.envelope import MemberRole
from tocsin.journal.snapshot import snapshot_lsns
from tocsin.message_manager.state_hash import state_hash
from tocsin.model.destination import parse_destination
from tocsin.model.ranges import pack_ranges
from tocsin.replication.roles import Role
from tocsin.testing.disk import SimulatedDisk


def level(stage: Stage) -> bool:
    """All members have the same state."""
    hosts = [seat.member for seat in stage.seats.values() if not seat.witness and seat.host is not None]
    return len({state_hash(host.manager.directory) for host in hosts}) == 1


def opened(stage: Stage) -> int:
    stage.elect()
    return int(stage.client.open_producer()["destination"])


def test_a_publish_is_confirmed_with_its_copies() -> None:
    stage = Stage()
    orders = opened(stage)
    stored = stage.client.publish(orders, "a", "b")
    assert [(each.sequence, each.copies) for each in stored] == [(2, 2)]
    stage.advance(1.0)
    assert level(stage) and stage.backup().member.applied == stage.primary().member.applied


def test_a_group_of_one_member_serves() -> None:
    stage = Stage(1, 0, copies=1)
    orders = opened(stage)
    assert [each.copies for each in stage.client.publish(orders, "a")] == [1]
    assert bodies(stage.client.open_consumer()) == ["a"]


def test_blocks_travel_once_and_are_only_named_to_the_backups() -> None:
    stage = Stage()
    orders = opened(stage)
    stage.carried.clear()
    stage.client.publish(orders, "x" * 10_000)
    assert [sender for sender, size in stage.carried if size > 10_000] == [CM]


def test_a_backup_takes_over_with_all_that_was_confirmed() -> None:
    stage = Stage()
    orders = opened(stage)
    client = stage.client
    client.publish(orders, "a", "b")
    assert bodies(client.open_consumer()) == ["a", "b"]
    old = stage.primary()
    old.crash()
    before = stage.clock.now()
    new = stage.elect()
    assert new is not old and stage.clock.now() - before < 4.0
    assert client.open_producer()["last_sequence"] == 2
    replies = client.send(publish(orders, "a", "b"), publish(orders, "c", first=3))
    assert [each.sequence for each in replies if isinstance(each, Stored)] == [2, 3]
    replies = client.open_consumer(held=[(0, 2)])
    assert answer(replies)["kept"] == pack_ranges([(0, 2)])
    assert bodies(replies) == ["c"]


def test_the_old_primary_comes_back_as_a_backup_with_the_same_state() -> None:
    stage = Stage()
    orders = opened(stage)
    client = stage.client
    client.publish(orders, "a")
    old = stage.primary()
    old.crash()
    stage.elect()
    client.open_producer()
    client.publish(orders, "b", first=2)
    stage.advance(3.0)
    assert stage.in_sync() == [stage.primary().node]
    assert [each.copies for each in client.publish(orders, "c", first=3)] == [1]
    old.start()
    stage.advance(3.0)
    assert old.member.role is Role.FOLLOWER and stage.in_sync() == [1, 2]
    assert level(stage)
    assert [each.copies for each in client.publish(orders, "d", first=4)] == [2]


def test_a_primary_that_is_cut_off_confirms_and_delivers_nothing_and_loses_what_it_took() -> None:
    stage = Stage()
    orders = opened(stage)
    client = stage.client
    client.publish(orders, "a")
    client.open_consumer()
    old = stage.primary()
    stage.cut_off = {old.node, CM}
    assert client.publish(orders, "lost", first=2) == []
    stage.advance(2.0)
    assert not old.member.member.may_deliver(stage.clock.now())
    replies = client.send(publish(orders, "late", first=3))
    assert replies == []
    stage.cut_off = {old.node}
    stage.elect()
    stage.advance(0.5)
    client.open_producer()
    client.publish(orders, "b", first=2)
    stage.cut_off = set()
    stage.advance(4.0)
    assert old.member.role is Role.FOLLOWER and old.member.serving is None
    assert level(stage)
    assert stage.in_sync() == [1, 2]


def test_both_members_come_back_after_a_power_cut() -> None:
    stage = Stage()
    orders = opened(stage)
    client = stage.client
    client.publish(orders, "a", "b", "c")
    client.open_consumer()
    client.settle((0, 1))
    for seat in stage.seats.values():
        seat.crash()
        seat.start()
    stage.elect()
    stage.advance(6.0)
    assert bodies(client.open_consumer()) == ["b", "c"]
    stage.advance(1.0)
    assert level(stage)


def test_what_cannot_be_read_is_counted_and_dropped() -> None:
    stage = Stage()
    stage.elect()
    host = stage.primary().member
    host.received(9, 1, b"Gxyz")
    host.received(9, 1, b"?")
    assert host.malformed == 2


def test_members_say_what_they_are() -> None:
    stage = Stage()
    orders = opened(stage)
    stage.client.publish(orders, "a" * 1000)
    stage.advance(2.0)
    primary, backup = stage.primary().node, stage.backup().node
    told = stage.client.statuses
    assert told[primary].role is MemberRole.PRIMARY and told[backup].role is MemberRole.BACKUP
    assert told[primary].primary == told[backup].primary == primary
    assert told[primary].in_sync == told[backup].in_sync == told[primary].members == (1, 2)
    assert told[primary].committed == told[backup].committed == told[primary].last > 0
    assert told[primary].live_bytes > 1000 and told[primary].free_bytes > 0


# ---- snapshots, upkeep


def publish_many(stage: Stage, destination: int, first: int, count: int, size: int = 1000) -> None:
    for sequence in range(first, first + count):
        stored = stage.client.publish(destination, f"{sequence} " + "x" * size, first=sequence)
        assert [each.sequence for each in stored] == [sequence]


def test_primary_and_backup_take_snapshots_and_start_from_them() -> None:
    stage = Stage(snapshot_bytes=8 * 1024, segment_bytes=16 * 1024)
    orders = opened(stage)
    publish_many(stage, orders, 1, 60)
    stage.advance(1.0)
    for seat in (stage.primary(), stage.backup()):
        assert len(snapshot_lsns(seat.disk)) == 2
        assert seat.member._log.base_lsn > 0
    for seat in stage.seats.values():
        seat.crash()
        seat.start()
    stage.elect()
    stage.advance(1.0)
    assert level(stage)
    assert len(bodies(stage.client.open_consumer())) == 60


def restart(stage: Stage) -> None:
    for seat in stage.seats.values():
        seat.crash()
        seat.start()
    stage.elect()
    stage.advance(6.0)
    assert level(stage)


def test_a_member_starts_when_all_was_consumed_after_its_snapshots() -> None:
    """The state of a snapshot needs what later records have released, until they are applied again."""
    stage = Stage(snapshot_bytes=8 * 1024, segment_bytes=16 * 1024)
    orders = opened(stage)
    publish_many(stage, orders, 1, 60)
    stage.advance(1.0)
    stage.client.open_consumer()
    stage.client.settle((0, 60))
    stage.advance(3.0)
    restart(stage)
    assert bodies(stage.client.open_consumer()) == []


def test_a_member_starts_when_a_retained_topic_was_deleted_after_its_snapshots() -> None:
    stage = Stage(snapshot_bytes=8 * 1024, segment_bytes=16 * 1024)
    opened(stage)
    stage.client.administer("destination.create", destination="topic:kept", retained=True)
    kept = stage.client.open_producer("topic:kept")["destination"]
    for sequence in range(1, 60):
        stage.client.send(publish(kept, "x" * 1000, first=sequence, name="topic:kept"))
    stage.advance(3.0)
    assert any(seat.disk.list("streams") for seat in stage.seats.values())
    stage.client.administer("destination.delete", destination="topic:kept")
    stage.advance(3.0)
    assert not any(seat.disk.list("streams") for seat in stage.seats.values())
    restart(stage)


def test_what_is_consumed_leaves_the_disks_of_all_members() -> None:
    stage = Stage(snapshot_bytes=8 * 1024, segment_bytes=16 * 1024)
    orders = opened(stage)
    client = stage.client
    client.open_consumer(messages=1_000_000)
    for sequence in range(1, 150):
        client.publish(orders, f"{sequence} " + "x" * 1000, first=sequence)
        client.settle((sequence - 1, sequence), number=sequence)
    stage.advance(3.0)
    assert level(stage)
    for seat in (stage.primary(), stage.backup()):
        assert len(seat.disk.list("journal")) < 8, seat.disk.list("journal")
        assert seat.member.status().live_bytes == 0


def test_a_primary_that_lost_its_role_begins_anew_from_its_snapshot() -> None:
    stage = Stage(snapshot_bytes=8 * 1024, segment_bytes=16 * 1024)
    orders = opened(stage)
    client = stage.client
    publish_many(stage, orders, 1, 30)
    client.open_consumer()
    client.settle((0, 5))
    old = stage.primary()
    stage.cut_off = {old.node, CM}
    client.send(publish(orders, "never", first=31))
    client.settle((5, 30), number=2)
    stage.cut_off = {old.node}
    stage.elect()
    stage.advance(1.0)
    client.open_producer()
    publish_many(stage, orders, 31, 4)
    stage.cut_off = set()
    stage.advance(5.0)
    assert old.member.serving is None and level(stage)
    stage.primary().crash()
    assert stage.elect() is old
    stage.advance(6.0)
    found = bodies(client.open_consumer(session=b"t" * 16))
    assert [int(body.split()[0]) for body in found] == [*range(6, 35)]


def test_a_member_that_is_too_far_behind_is_filled_and_joins() -> None:
    stage = Stage(snapshot_bytes=8 * 1024, segment_bytes=16 * 1024)
    orders = opened(stage)
    client = stage.client
    publish_many(stage, orders, 1, 30)
    client.open_consumer()
    client.settle((0, 5))
    old = stage.primary()
    stage.cut_off = {old.node, CM}
    client.send(publish(orders, "never", first=31))
    client.settle((5, 30), number=2)
    stage.cut_off = {old.node}
    stage.elect()
    stage.advance(1.0)
    client.open_producer()
    publish_many(stage, orders, 31, 60)
    new = stage.primary()
    assert new.member._log.base_lsn > old.member._log.last_lsn
    stage.cut_off = set()
    stage.advance(6.0)
    assert old.member.role is Role.FOLLOWER and stage.in_sync() == [1, 2]
    assert level(stage)
    publish_many(stage, orders, 91, 5)
    new.crash()
    assert stage.elect() is old
    stage.advance(6.0)
    client.open_consumer(session=b"t" * 16)
    stage.advance(0.5)
    assert [int(body.split()[0]) for body in bodies(client.replies)] == [*range(6, 96)]


def test_a_member_with_a_new_disk_is_filled() -> None:
    stage = Stage(3, 0, snapshot_bytes=8 * 1024, segment_bytes=16 * 1024)
    orders = opened(stage)
    publish_many(stage, orders, 1, 60)
    lost = stage.backup()
    lost.crash()
    lost.disk = SimulatedDisk()
    lost.start()
    stage.advance(8.0)
    assert stage.in_sync() == [1, 2, 3] and level(stage)
    for seat in stage.seats.values():
        seat.crash()
        seat.start()
    stage.elect()
    stage.advance(6.0)
    stage.client.open_consumer()
    stage.advance(0.5)
    assert len(bodies(stage.client.replies)) == 60


def test_cold_messages_are_read_from_the_disk_of_whoever_serves() -> None:
    stage = Stage(cache_bytes=1, segment_bytes=16 * 1024)
    orders = opened(stage)
    publish_many(stage, orders, 1, 40)
    stage.primary().crash()
    stage.elect()
    stage.advance(6.0)
    stage.client.open_consumer(messages=40)
    stage.advance(0.5)
    assert len(bodies(stage.client.replies)) == 40


def test_blocks_of_retained_topics_move_to_their_own_files_on_all_members() -> None:
    stage = Stage(snapshot_bytes=8 * 1024, segment_bytes=16 * 1024)
    stage.elect()
    client = stage.client
    client.administer("destination.create", destination="topic:news", retained=True)
    news = client.open_producer("topic:news")["destination"]
    for sequence in range(1, 61):
        client.send(publish(news, "x" * 1000, first=sequence, name="topic:news"))
    stage.advance(2.0)
    assert level(stage)
    for seat in (stage.primary(), stage.backup()):
        state = seat.member.manager.directory.by_id[news]
        assert state.stream_end > 30 and seat.disk.list(f"streams/{news}")
    stage.primary().crash()
    stage.elect()
    stage.advance(6.0)
    replay = OpenConsumer(
        99, b"r" * 16, 1, parse_destination("topic:news"), b"c" * 16, None, mode="replay", start={"at": "earliest"},
        messages=100, bytes=1 << 30,
    )  # fmt: skip
    client.send(replay)
    stage.advance(0.5)
    assert len(bodies(client.replies)) == 60


# ---- stepping down


def test_the_role_is_handed_over_without_waiting_for_silence() -> None:
    stage = Stage()
    orders = opened(stage)
    client = stage.client
    client.publish(orders, "a", "b")
    client.open_consumer()
    old = stage.primary()
    stage.advance(2.0)
    assert not stage.backup().member.hand_over(), "only a primary has something to give"
    assert old.member.hand_over()
    stage.settle()
    stage.advance(0.4)
    new = stage.primary()
    assert new is not old and old.member.role is Role.FOLLOWER
    assert client.open_producer()["last_sequence"] == 2
    assert [each.copies for each in client.publish(orders, "c", first=3)] == [2]
    stage.advance(1.0)
    assert level(stage) and stage.in_sync() == [1, 2]


def test_a_primary_that_finds_nobody_to_follow_goes_on() -> None:
    stage = Stage()
    orders = opened(stage)
    stage.advance(2.0)
    old = stage.primary()
    stage.backup().crash()
    assert old.member.hand_over()
    stage.advance(10.0)
    assert stage.primary() is old
    stage.client.open_producer()
    assert [each.copies for each in stage.client.publish(orders, "a")] == [1]
    assert not old.member.hand_over(), "nobody else is in sync"


# ---- links


def test_a_link_with_a_gap_is_broken_and_said_so() -> None:
    stage = Stage()
    orders = opened(stage)
    client = stage.client
    client.number += 1
    assert client.publish(orders, "a") == []
    assert [each.link for each in client.unlinked] == [client.link]
    client.relink()
    assert client.open_producer()["last_sequence"] == 0
    assert client.publish(orders, "a") != []


def test_deliveries_wait_until_all_client_managers_have_said_what_they_hold() -> None:
    stage = Stage(client_managers=(CM, 41))
    for seat in stage.seats.values():
        if not seat.witness:
            seat.member.node_up(CM, 7)
            seat.member.node_up(41, 1)
    orders = opened(stage)
    client = stage.client
    client.publish(orders, "a")
    assert bodies(client.open_consumer()) == []
    assert client.administer("link.complete") == {}
    assert bodies(client.replies) == []
    stage.primary().member.node_gone(41, 1)
    stage.settle()
    assert bodies(client.replies) == ["a"]


def test_nobody_waits_for_a_client_manager_that_is_gone() -> None:
    stage = Stage(client_managers=(41,))
    for seat in stage.seats.values():
        if not seat.witness:
            seat.member.node_up(41, 1)
    orders = opened(stage)
    stage.client.publish(orders, "a")
    assert bodies(stage.client.open_consumer()) == []
    stage.primary().member.node_gone(41, 1)
    stage.settle()
    assert bodies(stage.client.replies) == ["a"]


def test_a_backup_that_leaves_before_the_commit_delays_what_wants_two_copies() -> None:
    stage = Stage()
    stage.elect()
    client = stage.client
    client.administer("destination.create", destination="queue:careful", min_copies=2)
    careful, orders = client.open_producer("queue:careful")["destination"], client.open_producer()["destination"]
    assert [each.copies for each in client.publish(careful, "a")] == [2]
    backup = stage.backup()
    backup.crash()
    client.replies = []
    assert client.send(publish(careful, "b", first=2), publish(orders, "c")) == []
    stage.advance(stage.settings.eject_seconds + 2.0)
    assert stage.in_sync() == [stage.primary().node]
    assert [(each.sequence, each.copies) for each in client.replies if isinstance(each, Stored)] == [(1, 1)]
    backup.start()
    stage.advance(3.0)
    assert len(stage.in_sync()) == 2
    assert [(each.sequence, each.copies) for each in client.replies if isinstance(each, Stored)] == [(1, 1), (2, 2)]


def test_a_slow_client_manager_gets_answers_and_no_deliveries() -> None:
    stage = Stage()
    orders = opened(stage)
    client, member = stage.client, stage.primary().member
    client.open_consumer()
    member.spare({CM})
    assert len(client.publish(orders, "a")) == 1 and bodies(client.replies) == []
    # A new link is that of the same slow one.
    client.relink()
    assert bodies(client.open_consumer(held=[])) == []
    member.spare(())
    stage.settle()
    assert bodies(client.replies) == ["a"]


def test_a_new_primary_spares_whom_it_spared_before_it_led() -> None:
    stage = Stage()
    orders = opened(stage)
    client = stage.client
    client.publish(orders, "a")
    stage.advance(1.0)
    backup = stage.backup()
    backup.member.spare({CM})
    stage.primary().crash()
    stage.elect()
    assert bodies(client.open_consumer()) == []
    backup.member.spare(())
    stage.settle()
    assert bodies(client.replies) == ["a"]


def test_what_comes_before_a_new_primary_serves_is_kept() -> None:
    stage = Stage()
    opened(stage)
    stage.advance(2.0)
    backup = stage.backup()
    backup.workers.slow = True
    stage.primary().crash()
    while backup.member.role is not Role.PRIMARY:
        stage.advance(0.02)
    stage.advance(0.3)
    assert backup.member.serving is None and stage.client.primary == backup.node
    assert stage.client.send(OpenConsumer(9, b"t" * 16, 1, parse_destination("queue:orders"), b"c" * 16, None)) == []
    backup.workers.slow = False
    backup.workers.catch_up()
    stage.advance(1.0)
    assert answer(stage.client.replies) == {} and stage.client.unlinked == []


def test_a_clean_stop_leaves_a_snapshot() -> None:
    stage = Stage(1, 0, copies=1)
    orders = opened(stage)
    stage.client.publish(orders, "a", "b")
    stage.client.open_consumer(messages=1)
    host = stage.primary().member
    host.prepare_to_stop()
    stage.settle()
    assert host.idle and snapshot_lsns(stage.primary().disk) != []
    host.close()
