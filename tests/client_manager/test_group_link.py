"""When a new link begins, and what waits for the bus."""

from __future__ import annotations

import pytest
from tests.client_manager.scripted_groups import Cluster, ScriptedGroup, delivery, kinds

from tocsin.bus.membership import MemberState
from tocsin.client_manager.group_link import GroupLink, LinkPhase
from tocsin.cluster.commands import (
    Administer,
    GrantCredit,
    OpenConsumer,
    Publish,
)
from tocsin.cluster.envelope import Unlinked, decode
from tocsin.model.errors import IllegalState, InvalidDestination, MessageTooLarge
from tocsin.model.limits import COMMANDS_BYTES_MAX
from tocsin.replication.gate import EpochGate
from tocsin.wire.frames import FrameType, write_publish
from tocsin.wire.frames import Publish as PublishFrame


def bodies(publish: object) -> tuple[int, int]:
    assert isinstance(publish, Publish)
    return publish.block.first_sequence, publish.block.count


def test_an_unlinked_link_is_begun_anew_and_a_former_one_is_not() -> None:
    cluster = Cluster()
    group = cluster.group
    cluster.connect().session().producer("queue:orders").send("one")
    link = group.link
    cluster.now += 1
    group.take_taken()
    cluster.port.message(1, group.primary, 1, Unlinked(group.epoch, link - 1 or 99), cluster.now)
    cluster.settle()
    assert group.take_taken() == []
    cluster.port.message(1, group.primary, 1, Unlinked(group.epoch, link), cluster.now)
    cluster.settle()
    assert kinds(group.take_taken()) == ["OpenProducer", "Publish"]
    assert group.link == link + 1
    numbers = [each.number for each in group.messages if each.link == group.link]
    assert numbers == list(range(len(numbers)))


def test_lost_answers_begin_a_new_link() -> None:
    cluster = Cluster()
    group = cluster.group
    cluster.connect().session().producer("queue:orders")
    cluster.now += 1
    link = group.link
    cluster.port.lost_sync(1, group.primary + 1, cluster.now)
    cluster.settle()
    assert group.link == link
    cluster.port.lost_sync(1, group.primary, cluster.now)
    cluster.settle()
    assert group.link == link + 1


def test_a_primary_that_does_not_answer_is_asked_again_and_told_the_rest_later() -> None:
    cluster = Cluster()
    group = cluster.group
    cluster.connect().session().producer("queue:orders").send("one")
    group.silent = True
    cluster.fail_over(group)
    sent = len(group.messages)
    assert [kinds(each.commands) for each in group.messages[-1:]] == [["connection.keep"]]
    assert cluster.port.link_phase(1) is LinkPhase.ASKING
    cluster.advance(0.2)
    assert len(group.messages) == sent
    cluster.advance(0.1)
    assert len(group.messages) == sent + 1
    cluster.advance(0.3)
    assert len(group.messages) == sent + 1, "the second time it waits longer"
    cluster.advance(0.3)
    assert len(group.messages) == sent + 2
    group.silent = False
    cluster.advance(1.1)
    assert kinds(group.take_taken()) == ["OpenProducer", "Publish"]


def deliver_late(cluster: Cluster) -> list[str]:
    """A primary that was stopped wakes and delivers, when another one leads already."""
    group = cluster.group
    session = cluster.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send("a")
    opened, publish = group.take_taken()[1:]
    epoch, link, primary = group.epoch, group.link, group.primary
    cluster.port.message(1, 11, 1, ScriptedGroup(1, epoch + 64, 11).beat(), cluster.now)
    group.primary = primary
    cluster.port.message(1, primary, 1, ScriptedGroup(1, epoch, primary).beat(), cluster.now)
    cluster.reply(group, delivery(opened, publish, 0), epoch=epoch, link=link)
    cluster.reply(group, delivery(opened, publish, 0), epoch=epoch, link=group.link)
    return consumer.bodies()


def test_nothing_of_an_epoch_that_is_over_is_taken() -> None:
    cluster = Cluster()
    assert deliver_late(cluster) == []
    assert cluster.port.dropped == 3


def test_without_the_rule_it_would_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.replication.gate.admits", lambda epoch, highest: True)
    assert deliver_late(Cluster()) == ["a"]


def test_requests_without_an_answer_are_put_again_in_their_order() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    group.silent = True
    first = client.ask("destination.create", destination="queue:one")
    second = client.ask("destination.purge", destination="queue:one")
    group.silent = False
    cluster.fail_over(group)
    assert kinds(group.take_taken()) == ["destination.create", "destination.purge"]
    assert client.answer(first) is not None and client.answer(second) is not None


def test_a_deletion_that_finds_nothing_the_second_time_was_done_the_first_time() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    group.silent = True
    request = client.ask("destination.delete", destination="queue:one")
    group.silent = False
    group.answers["destination.delete"] = InvalidDestination("There is no queue 'one'.")
    cluster.fail_over(group)
    assert client.answer(request) == {"id": request}
    with pytest.raises(InvalidDestination):
        client.request("destination.delete", destination="queue:one")
    # One that no primary has heard before is not taken for done.
    cluster.port.member_changed(1, group.primary, group.boot, MemberState.DOWN, cluster.now)
    request = client.ask("destination.delete", destination="queue:one")
    cluster.fail_over(group, 12)
    with pytest.raises(InvalidDestination):
        client.answer(request)


def test_a_server_that_is_drained_says_goodbye_and_takes_nobody_new() -> None:
    cluster = Cluster()
    client = cluster.connect()
    session = client.session()
    consumer = session.consumer("queue:orders")
    cluster.port.clients.drain()
    cluster.settle()
    assert len(client.take(FrameType.GOODBYE)) == 1
    with pytest.raises(IllegalState):
        cluster.connect()
    # Its sessions go on at another one, from the moment their clients come there.
    cluster.hang_up(client)
    assert kinds(cluster.group.take_taken())[-1] == "PauseSession"
    other = Cluster([cluster.group], node=2)
    again = other.connect(resume=client).session(1, session)
    again.consumer("queue:orders", former=consumer)
    opened = cluster.group.take_taken()[-1]
    assert isinstance(opened, OpenConsumer) and opened.epoch == 1


def test_while_the_bus_has_no_room_commands_wait_and_nothing_is_lost() -> None:
    cluster = Cluster()
    group = cluster.group
    producer = cluster.connect().session().producer("queue:orders")
    group.take_taken()
    cluster.room = 0
    for text in ("one", "two", "three"):
        producer.send(text)
    assert group.take_taken() == []
    cluster.room = None
    cluster.port.room(1)
    cluster.settle()
    assert [bodies(each)[0] for each in group.take_taken()] == [1, 2, 3]
    numbers = [each.number for each in group.messages if each.link == group.link]
    assert numbers == list(range(len(numbers)))


def test_what_waits_for_room_is_forgotten_with_its_link() -> None:
    cluster = Cluster()
    group = cluster.group
    producer = cluster.connect().session().producer("queue:orders")
    cluster.room = 0
    producer.send("one")
    cluster.room = None
    cluster.fail_over(group)
    assert group.take_taken() == [], "the bus has not said that it has room"
    cluster.port.room(1)
    cluster.settle()
    assert kinds(group.take_taken()) == ["OpenProducer", "Publish"]


def test_credit_that_waits_for_the_bus_takes_one_place_for_each_consumer() -> None:
    cluster = Cluster()
    consumer = cluster.connect().session().consumer("queue:orders")
    cluster.group.take_taken()
    cluster.room = 0
    for number in range(100_001, 101_000):
        consumer.grant(number)
    cluster.room = None
    cluster.port.room(1)
    cluster.settle()
    grants = [each for each in cluster.group.take_taken() if isinstance(each, GrantCredit)]
    assert [each.messages for each in grants] == [100_001, 100_999], "the first was refused by the bus"


def test_one_message_carries_what_one_turn_has_within_bounds() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    producer = client.session().producer("queue:orders")
    cluster.fail_over(group)
    before = len(group.messages)
    blocks = []
    for _ in range(5):
        blocks.append(producer.block([b"x" * 400_000]))
        producer.next_sequence += 1
    group.silent = True
    client.send(*(b"".join(write_publish(1, PublishFrame(producer.number, block))) for block in blocks))
    assert [len(each.commands) for each in group.messages[before:]] == [2, 2, 1]


def test_a_new_link_names_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.client_manager.cluster_port.CONNECTIONS_PER_KEEP", 2)
    cluster = Cluster()
    identities = [cluster.connect().identity for _ in range(5)]
    cluster.fail_over(cluster.group)
    kept = [each for each in cluster.group.taken if isinstance(each, Administer) and "connections" in each.fields]
    assert [len(each.fields["connections"]) for each in kept] == [2, 2, 1]
    assert [each for keep in kept for each in keep.fields["connections"]] == identities


def test_what_the_bus_refuses_is_said_first_when_there_is_room_unless_its_link_is_over() -> None:
    link = GroupLink(1, EpochGate())
    link.heartbeat(64, 7, 1, 0.0)
    link.begin(Administer(1, "first", {}), 0.0)
    link.answered()
    link.send(Administer(2, "second", {}))
    refused = link.take_out()
    link.blocked(refused)
    assert link.take_out() == [], "there is no room yet"
    link.send(Administer(3, "third", {}))
    link.room()
    refused = link.take_out()
    assert [each.message.number for each in refused] == [0, 1, 2]
    # A primary of a later epoch is heard before the bus gives the messages back.
    link.heartbeat(128, 8, 1, 1.0)
    link.begin(Administer(4, "fourth", {}), 1.0)
    link.blocked(refused)
    link.room()
    said = [(each.message.epoch, each.message.link, each.message.number) for each in link.take_out()]
    assert said == [(128, 2, 0)], "of the former link nothing is said any more"


def test_a_request_counts_by_its_bytes() -> None:
    """A thousand requests of a kilobyte and more are several messages."""
    link = GroupLink(1, EpochGate())
    link.heartbeat(64, 10, 1, 0.0)
    link.begin(Administer(1, "connection.keep", {}), 0.0)
    link.answered()
    link.take_out()
    for number in range(1_000):
        assert link.send(Administer(number, "destination.list", {"prefix": "x" * 4_096}))
    out = link.take_out()
    sizes = [sum(map(len, each.parts())) for each in out]
    assert len(out) > 3 and max(sizes) <= COMMANDS_BYTES_MAX + 64
    commands = [command for each in out for command in decode(b"".join(each.parts())).commands]  # type: ignore[union-attr]
    assert [command.request for command in commands if isinstance(command, Administer)] == list(range(1_000))


def test_a_command_that_can_not_cross_the_bus_is_refused_at_once_and_takes_nothing_with_it() -> None:
    link = GroupLink(1, EpochGate())
    too_large = Administer(1, "destination.list", {"prefix": "x" * 30_000_000})
    with pytest.raises(MessageTooLarge):
        link.send(too_large)
    link.heartbeat(64, 10, 1, 0.0)
    link.begin(Administer(1, "connection.keep", {}), 0.0)
    link.answered()
    link.take_out()
    with pytest.raises(MessageTooLarge):
        link.send(too_large)
    assert link.send(Administer(2, "destination.list", {})) and len(link.take_out()) == 1
