"""The bus of one node among others: on a quiet network, so that what happens is what the bus does."""

from __future__ import annotations

from math import inf

import pytest

from tocsin.bus.machine import (
    Bus,
    BusSettings,
    Delivered,
    LostSync,
    MemberState,
    Reason,
    RoomAgain,
    Stream,
    Synced,
    Way,
    WindowSize,
    group_in,
    group_out,
    to_node,
)
from tocsin.model.errors import MessageTooLarge
from tocsin.model.limits import BUS_CONTROL_MESSAGE_BYTES_MAX, BUS_WAITING_BYTES, BUS_WAITING_MESSAGES
from tocsin.testing.bus_cluster import BusCluster, BusNode, Joined, manager_of_clients, member_of_group
from tocsin.testing.network import Conditions

SMALL = BusSettings(data=WindowSize(64, 20_000, 4_000, overwrites=False), window_bytes_min=4_000)
Trio = tuple[BusNode, BusNode, BusNode]
IN, OUT = group_in(1), group_out(1)


def up(cluster: BusCluster) -> None:
    """A manager of clients sees the group; the group sees everybody."""
    nodes = list(cluster.nodes.values())
    assert cluster.run(3.0, lambda: all(node.bus.members(1) for node in nodes))
    cluster.run(0.3)


def trio(settings: BusSettings | None = None, conditions: Conditions | None = None) -> tuple[BusCluster, Trio]:
    cluster = BusCluster(settings=settings, conditions=conditions)
    nodes = (
        cluster.start(1, manager_of_clients()),
        cluster.start(2, member_of_group()),
        cluster.start(3, member_of_group()),
    )
    up(cluster)
    return cluster, nodes


def test_each_way_reaches_those_it_is_for() -> None:
    cluster, (manager, first, second) = trio()
    other = cluster.start(4, manager_of_clients())
    up(cluster)
    assert manager.send(IN) and first.send(OUT) and first.send(IN) and first.send(to_node(1, 4))
    cluster.run(0.1)
    assert first.received_from(manager, IN) == second.received_from(manager, IN) == [1]
    assert second.received_from(first, IN) == [1]
    assert manager.received_from(first, OUT) == other.received_from(first, OUT) == [1]
    assert other.received_from(first, to_node(1, 4)) == [1]
    for node in cluster.nodes.values():
        expected = {1: 1, 2: 1, 3: 2, 4: 2}[node.node]
        assert sum(isinstance(event, Delivered) for event in node.events) == expected


def test_managers_of_clients_do_not_hear_each_other() -> None:
    cluster, (manager, first, _) = trio()
    cluster.start(4, manager_of_clients())
    up(cluster)
    assert {member.node for member in manager.bus.members(1)} == {2, 3}
    assert {member.node for member in first.bus.members(1)} == {1, 3, 4}


def test_a_message_in_one_packet_is_delivered_without_a_copy() -> None:
    cluster, (manager, first, _) = trio()
    manager.send(IN, 1000)
    manager.send(IN, 5000)
    cluster.run(0.1)
    small, large = (event.payload for event in first.events if isinstance(event, Delivered))
    assert isinstance(small, memoryview) and isinstance(large, bytes)


def test_messages_sent_together_share_a_datagram() -> None:
    cluster, (manager, first, _) = trio()
    before = manager.bus.counters.datagrams_out
    for _ in range(20):
        manager.send(IN, 40)
    cluster.run(0.0)
    assert manager.bus.counters.datagrams_out == before + 1
    cluster.run(0.1)
    assert first.received_from(manager, IN) == list(range(1, 21))


def test_payload_is_counted_as_often_as_it_is_sent() -> None:
    cluster, (manager, first, _) = trio()
    cluster.run(0.5)
    before = manager.bus.counters.payload_bytes_out
    manager.bus.count(IN, [2, 3])
    manager.send(IN, 40)
    cluster.run(0.1)
    chunk_bytes = 4
    assert manager.bus.counters.payload_bytes_out - before == 40 + chunk_bytes, "once, however many receive it"
    sent_again = manager.bus.counters.resent
    manager.send(IN, 40)
    lost = manager.bus.take_bursts(cluster.now)
    assert lost and manager.bus.counters.payload_bytes_out - before == 2 * (40 + chunk_bytes)
    cluster.run(1.0)
    assert manager.bus.counters.resent == sent_again + 1
    assert manager.bus.counters.payload_bytes_out - before == 3 * (40 + chunk_bytes)
    assert first.received_from(manager, IN) == [1, 2]


def test_a_burst_has_datagrams_of_one_length_and_bounded_size() -> None:
    cluster, (manager, _, _) = trio()
    manager.bus.count(IN, [2, 3])
    manager.send(IN, 200_000)
    manager.send(IN, 10)
    bursts = manager.bus.take_bursts(cluster.now)
    assert len(bursts) > 3
    for burst in bursts:
        lengths = [sum(map(len, datagram)) for datagram in burst.datagrams]
        assert set(lengths[:-1]) <= {burst.segment} and lengths[-1] <= burst.segment
        assert sum(lengths) <= 65_507 and len(lengths) <= 64


def test_the_limit_of_a_turn_holds_and_the_rest_stays_ready() -> None:
    cluster, (manager, first, _) = trio()
    manager.bus.count(IN, [2, 3])
    manager.send(IN, 400_000)
    sent = sum(len(burst.datagrams) for burst in manager.bus.take_bursts(cluster.now, limit=50_000))
    assert 30 < sent < 60
    # What was taken and not sent is lost on the way; it is asked for.
    assert cluster.run(2.0, lambda: first.received_from(manager, IN) == [1])


def test_senders_are_held_back_and_told_of_room() -> None:
    cluster, (manager, first, second) = trio()
    manager.bus.count(IN, [2, 3])
    cluster.network.partition([1], [2, 3])
    while manager.send(IN, 100_000):
        pass
    assert manager.bus.room(IN) == 0
    assert BUS_WAITING_BYTES <= manager.bus.pending(IN) <= BUS_WAITING_BYTES + 100_000
    cluster.run(0.1)
    while manager.send(IN, 100_000):
        pass
    manager.events.clear()
    cluster.network.heal()
    assert cluster.run(3.0, lambda: any(isinstance(event, RoomAgain) for event in manager.events))
    assert manager.bus.room(IN) > 0
    assert cluster.run(5.0, lambda: manager.bus.pending(IN) == 0)
    assert first.received_from(manager, IN) == second.received_from(manager, IN) == list(range(1, manager.sent(IN) + 1))


def test_many_tiny_messages_are_held_back_too() -> None:
    _, (manager, _, _) = trio()
    for _ in range(BUS_WAITING_MESSAGES):
        assert manager.send(IN)
    assert not manager.send(IN)


def test_a_message_that_is_too_large_is_refused_with_a_sentence() -> None:
    _, (manager, _, _) = trio()
    with pytest.raises(MessageTooLarge, match="65,536 bytes"):
        manager.bus.send(IN, (bytes(BUS_CONTROL_MESSAGE_BYTES_MAX), b"!"), Stream.CONTROL)


def test_who_is_not_there_gets_nothing() -> None:
    _, (manager, _, _) = trio()
    assert not manager.send(to_node(1, 9)) and not manager.send(OUT) and not manager.send(group_in(2))
    assert manager.bus.room(to_node(1, 9)) == 0 and manager.bus.pending(group_in(2)) == 0
    assert manager.bus.behind(group_in(2)) == []


def test_an_observer_does_not_stop_the_sender() -> None:
    cluster, (manager, first, second) = trio(SMALL)
    manager.bus.count(IN, [2])
    cluster.network.cut(1, 3)
    for _ in range(100):
        assert manager.send(IN, 1000)
    assert cluster.run(1.0, lambda: manager.bus.pending(IN) == 0)
    assert first.received_from(manager, IN) == list(range(1, 101))
    cluster.network.heal()
    cluster.run(2.0)
    assert second.losses_from(manager, IN) == 1, "it is told that it missed something"


def test_a_member_that_counts_paces_the_sender_and_is_named() -> None:
    cluster, (manager, first, second) = trio(SMALL)
    manager.bus.count(IN, [2, 3])
    second.bus.hold_back(True, cluster.now)
    for _ in range(100):
        assert manager.send(IN, 1000)
        second.bus.hold_back(True, cluster.now)
        cluster.run(0.01)
    assert manager.bus.behind(IN) == [3]
    assert 15 < len(first.received_from(manager, IN)) < 40
    second.bus.hold_back(False, cluster.now)
    assert cluster.run(2.0, lambda: manager.bus.pending(IN) == 0)
    assert second.received_from(manager, IN) == list(range(1, 101))
    assert manager.bus.behind(IN) == []


def test_a_member_that_counts_no_more_is_not_waited_for() -> None:
    cluster, (manager, first, _) = trio(SMALL)
    manager.bus.count(IN, [2, 3])
    cluster.kill(3)
    for _ in range(100):
        manager.send(IN, 1000)
    cluster.run(2.0)
    assert manager.bus.pending(IN) > 0 and manager.bus.behind(IN) == [3]
    manager.bus.count(IN, [2])
    assert cluster.run(2.0, lambda: manager.bus.pending(IN) == 0)
    assert first.received_from(manager, IN) == list(range(1, 101))


def test_control_is_delivered_while_data_is_blocked() -> None:
    cluster, (manager, first, second) = trio(SMALL)
    manager.bus.count(IN, [2, 3])
    second.bus.hold_back(True, cluster.now)
    for _ in range(100):
        manager.send(IN, 1000)
    cluster.run(0.5)
    blocked = len(first.received_from(manager, IN))
    assert manager.send(IN, 50, Stream.CONTROL)
    cluster.run(0.05)
    assert first.received_from(manager, IN, Stream.CONTROL) == second.received_from(manager, IN, Stream.CONTROL) == [1]
    assert len(first.received_from(manager, IN)) == blocked


def test_control_leaves_before_data() -> None:
    cluster, (manager, _, _) = trio()
    manager.bus.take_bursts(cluster.now)
    manager.send(IN, 50_000)
    manager.send(IN, 50, Stream.CONTROL)
    first, second, *_ = manager.bus.take_bursts(cluster.now)
    assert len(first.datagrams) == 1 and len(second.datagrams) > 10


def test_control_never_waits_and_tells_who_missed_some() -> None:
    cluster, (manager, first, second) = trio()
    manager.bus.count(IN, [2, 3])
    cluster.network.cut(1, 3)
    for _ in range(3_000):
        assert manager.send(IN, 1_000, Stream.CONTROL)
        if manager.bus.pending(IN, Stream.CONTROL) > 100_000:
            cluster.run(0.0001)
    cluster.run(0.5)
    assert len(first.received_from(manager, IN, Stream.CONTROL)) == 3_000
    assert manager.bus.buffered_bytes() < 3_000_000
    cluster.network.heal()
    cluster.run(1.0)
    assert second.losses_from(manager, IN, Stream.CONTROL) == 1
    assert second.received_from(manager, IN, Stream.CONTROL)[-1] == 3_000


def test_a_node_that_joins_late_begins_where_the_others_are() -> None:
    cluster, (manager, _, _) = trio()
    manager.bus.count(IN, [2, 3])
    for _ in range(50):
        manager.send(IN, 2000)
    cluster.run(1.0)
    late = cluster.start(4, member_of_group())
    up(cluster)
    manager.send(IN)
    cluster.run(0.5)
    assert late.received_from(manager, IN) == [51]
    synced = [event for event in late.events if isinstance(event, Synced) and event.sender == 1]
    assert {event.stream: event.first for event in synced}[Stream.DATA] > 50
    assert not any(isinstance(event, LostSync) for event in late.events)


def test_a_restarted_node_is_a_new_member_and_its_streams_begin_anew() -> None:
    cluster, (manager, first, _) = trio()
    for _ in range(5):
        first.send(to_node(1, 1))
        manager.send(to_node(1, 2))
    cluster.run(0.5)
    cluster.kill(2)
    again = cluster.start(2, member_of_group(), boot=2)
    up(cluster)
    assert [(change.boot, change.state, change.reason) for change in manager.changes if change.node == 2] == [
        (1, MemberState.UP, None),
        (1, MemberState.DOWN, Reason.RESTARTED),
        (2, MemberState.UP, None),
    ]
    again.send(to_node(1, 1))
    manager.send(to_node(1, 2))
    cluster.run(0.5)
    assert manager.received_from(again, to_node(1, 1)) == [1]
    assert again.received_from(manager, to_node(1, 2)) == [1]
    assert Synced(1, 1, to_node(1, 2), Stream.DATA, 1) in again.events


def test_nothing_for_an_earlier_incarnation_reaches_the_later_one() -> None:
    cluster, (manager, _, _) = trio()
    cluster.network.cut(1, 2)
    manager.send(to_node(1, 2))
    cluster.run(0.05)
    cluster.kill(2)
    cluster.network.heal()
    again = cluster.start(2, member_of_group(), boot=2)
    up(cluster)
    assert not any(isinstance(event, Delivered) for event in again.events)


def test_silence_is_noticed_and_the_end_of_it() -> None:
    cluster, (manager, first, _) = trio()
    cluster.network.partition([1], [2, 3])
    cluster.run(0.5)
    assert manager.state_of(2) is MemberState.SUSPECTED
    cluster.run(1.0)
    assert manager.state_of(2) is first.state_of(1) is MemberState.DOWN
    assert not manager.send(to_node(1, 2))
    cluster.network.heal()
    cluster.run(0.5)
    assert manager.state_of(2) is first.state_of(1) is MemberState.UP
    assert manager.send(to_node(1, 2))
    cluster.run(0.2)
    assert first.received_from(manager, to_node(1, 2)) == [1]


def test_what_waited_for_a_node_that_was_down_is_not_sent_later_in_silence() -> None:
    cluster, (manager, first, _) = trio()
    manager.send(to_node(1, 2))
    cluster.run(0.2)
    cluster.network.partition([1], [2, 3])
    manager.send(to_node(1, 2))
    cluster.run(2.0)
    cluster.network.heal()
    cluster.run(1.0)
    manager.send(to_node(1, 2))
    cluster.run(0.5)
    assert first.received_from(manager, to_node(1, 2)) == [1, 3]
    assert first.losses_from(manager, to_node(1, 2)) == 1


def test_a_link_in_one_direction_is_no_link() -> None:
    cluster, (manager, first, _) = trio()
    cluster.network.cut(1, 2)
    cluster.run(3.0)
    (reason,) = {change.reason for change in manager.changes if change.node == 2 and change.reason}
    assert reason is Reason.DEAF
    assert first.state_of(1) is MemberState.DOWN


def test_who_leaves_is_gone_at_once_and_may_come_back() -> None:
    cluster, (manager, first, second) = trio()
    for node in (first, second):
        manager.bus.count(IN, [2, 3])
        node.send(IN)
    manager.send(IN)
    cluster.run(0.2)
    cluster.leave(1)
    cluster.run(0.01)
    assert first.state_of(1) is second.state_of(1) is MemberState.DOWN
    assert first.changes[-1].reason is Reason.LEFT
    manager.bus.join(1, listens=(Way.OUT,), speaks=(Way.IN,), datagram_bytes=1400)
    cluster.run(0.5)
    assert first.state_of(1) is MemberState.UP
    manager.bus.count(IN, [2, 3])
    manager.send(IN)
    manager.send(to_node(1, 2))
    assert cluster.run(1.0, lambda: manager.bus.pending(IN) == 0)
    assert first.received_from(manager, IN) == second.received_from(manager, IN) == [1, 2]
    assert first.received_from(manager, to_node(1, 2)) == [1]


def test_a_path_that_carries_less_gets_smaller_datagrams() -> None:
    cluster, (manager, _, _) = trio()
    manager.bus.take_bursts(cluster.now)
    manager.bus.resize(IN, 1200)
    manager.send(IN, 10_000)
    (burst,) = manager.bus.take_bursts(cluster.now)
    assert burst.segment == 1200


@pytest.mark.parametrize("managers_are_everywhere", [True, False], ids=["managers on all", "groups on all"])
def test_several_channels_on_several_networks(managers_are_everywhere: bool) -> None:
    """Either every client manager is on all channels and every message manager on one, or the other way round."""
    cluster = BusCluster()
    if managers_are_everywhere:
        managers = [cluster.start(node, manager_of_clients(1), manager_of_clients(2)) for node in (1, 2)]
        groups = {1: cluster.start(11, member_of_group(1)), 2: cluster.start(12, member_of_group(2))}
        pairs = [(manager, groups[channel], channel) for manager in managers for channel in (1, 2)]
    else:
        alone = {1: cluster.start(1, manager_of_clients(1)), 2: cluster.start(2, manager_of_clients(2))}
        both = [cluster.start(node, member_of_group(1), member_of_group(2)) for node in (11, 12)]
        pairs = [(alone[channel], member, channel) for member in both for channel in (1, 2)]
    cluster.run(1.0)
    for manager, member, channel in pairs:
        assert manager.state_of(member.node, channel) is member.state_of(manager.node, channel) is MemberState.UP
        manager.send(to_node(channel, member.node))
        member.send(to_node(channel, manager.node))
    for manager in {pair[0].node: pair[0] for pair in pairs}.values():
        for channel in {pair[2] for pair in pairs if pair[0] is manager}:
            manager.send(group_in(channel))
    cluster.run(0.2)
    for manager, member, channel in pairs:
        assert member.received_from(manager, group_in(channel)) == [1]
        assert member.received_from(manager, to_node(channel, member.node)) == [1]
        assert manager.received_from(member, to_node(channel, manager.node)) == [1]


def test_a_network_that_fails_takes_only_its_own_channel_down() -> None:
    cluster = BusCluster()
    manager = cluster.start(1, manager_of_clients(1), manager_of_clients(2))
    cluster.start(11, member_of_group(1))
    other = cluster.start(12, member_of_group(2))
    cluster.run(1.0)
    cluster.network.partition([1], [11])
    cluster.run(2.0)
    assert manager.state_of(11, 1) is MemberState.DOWN and manager.state_of(12, 2) is MemberState.UP
    manager.send(group_in(2))
    cluster.run(0.1)
    assert other.received_from(manager, group_in(2)) == [1]


def test_a_quiet_bus_is_called_seldom() -> None:
    cluster, (manager, _, _) = trio()
    before = manager.bus.counters.datagrams_out
    cluster.run(10.0)
    assert manager.bus.counters.datagrams_out - before < 10.0 / 0.1 + 5
    assert cluster.now < manager.bus.next_deadline() < inf


def test_a_bus_without_a_channel_has_nothing_to_do() -> None:
    bus = Bus(1, 1, lambda: 0.5)
    assert bus.next_deadline() == inf and bus.take_bursts(1.0) == [] and bus.take_events() == []
    bus.received(1, b"anything", 8, 1.0)
    assert bus.buffered_bytes() == 0


def test_a_node_may_be_both() -> None:
    cluster = BusCluster()
    both = Joined(1, (Way.IN, Way.OUT), (Way.IN, Way.OUT))
    first, second = cluster.start(1, both), cluster.start(2, both)
    up(cluster)
    first.send(IN)
    first.send(OUT)
    cluster.run(0.2)
    assert second.received_from(first, IN) == second.received_from(first, OUT) == [1]
