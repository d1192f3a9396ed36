"""Fail-over as a client manager sees it: what was not confirmed is said again, and clients notice nothing."""

from __future__ import annotations

import pytest
from tests.client_manager.scripted_groups import Cluster, ScriptedGroup, delivery, kinds, stored

from tocsin.bus.membership import MemberState
from tocsin.client_manager.group_link import LinkPhase
from tocsin.cluster.commands import (
    Administer,
    Command,
    GrantCredit,
    NotStored,
    OpenConsumer,
    OpenProducer,
    PauseSession,
    Publish,
    Reply,
    SettledTo,
    SettleMessages,
)
from tocsin.cluster.envelope import Unlinked
from tocsin.model.errors import IllegalState, InvalidDestination
from tocsin.wire.frames import FrameType, Outcome, write_publish
from tocsin.wire.frames import Publish as PublishFrame


def bodies(publish: object) -> tuple[int, int]:
    assert isinstance(publish, Publish)
    return publish.block.first_sequence, publish.block.count


# ---- producers


def test_what_is_not_confirmed_is_sent_again_and_nothing_else() -> None:
    cluster = Cluster()
    group = cluster.group
    producer = cluster.connect().session().producer("queue:orders")
    for text in ("one", "two", "three"):
        producer.send(text)
    blocks = [each for each in group.take_taken() if isinstance(each, Publish)]
    cluster.reply(group, stored(blocks[0]))
    assert producer.confirmed == 1

    cluster.fail_over(group)
    again = group.take_taken()
    assert kinds(again) == ["OpenProducer", "Publish", "Publish"]
    assert [bodies(each) for each in again[1:]] == [(2, 1), (3, 1)]
    cluster.reply(group, stored(again[1]), stored(again[2]))
    assert producer.confirmed == 3 and producer.copies == 2

    cluster.fail_over(group, 12)
    assert kinds(group.take_taken()) == ["OpenProducer"]


def test_a_client_hears_nothing_of_the_answers_to_reopened_producers_and_consumers() -> None:
    cluster = Cluster()
    client = cluster.connect()
    session = client.session()
    session.producer("queue:orders")
    session.consumer("queue:orders")
    client.frames.clear()
    cluster.fail_over(cluster.group)
    assert client.frames == []


def test_what_is_sent_while_nobody_leads_waits_for_the_next_primary() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    producer = client.session().producer("queue:orders")
    cluster.port.member_changed(1, group.primary, group.boot, MemberState.DOWN, cluster.now)
    group.take_taken()
    producer.send("one")
    request = client.ask("destination.show", destination="queue:orders")
    assert group.take_taken() == [] and client.answer(request) is None

    cluster.fail_over(group)
    assert kinds(group.take_taken()) == ["OpenProducer", "Publish", "destination.show"]
    assert client.answer(request) is not None


def test_the_end_of_what_is_said_again_is_marked() -> None:
    cluster = Cluster()
    client = cluster.connect()
    client.session().producer("queue:orders")
    cluster.group.silent = True
    client.ask("destination.show", destination="queue:orders")
    cluster.group.silent = False
    cluster.fail_over(cluster.group)
    expected = ["connection.keep", "OpenProducer", "destination.show", "link.complete"]
    assert kinds(cluster.group.taken) == expected


def test_refused_blocks_are_not_sent_again() -> None:
    cluster = Cluster()
    group = cluster.group
    session = cluster.connect().session()
    producer = session.producer("queue:orders")
    producer.send("one")
    publish = group.take_taken()[-1]
    assert isinstance(publish, Publish)
    cluster.reply(group, NotStored(publish.session, publish.producer, 1, 1, IllegalState("No.")))
    assert len(producer.refused) == 1
    cluster.fail_over(group)
    assert kinds(group.take_taken()) == ["OpenProducer"]


def test_a_producer_that_was_closed_stays_closed() -> None:
    cluster = Cluster()
    session = cluster.connect().session()
    session.producer("queue:orders").close()
    one, two = session.producer("queue:orders"), session.producer("queue:orders")
    two.close()
    assert kinds(cluster.group.take_taken()).count("CloseProducer") == 1, "another one is open there"
    cluster.fail_over(cluster.group)
    (opened,) = cluster.group.take_taken()
    assert isinstance(opened, OpenProducer) and opened.producer == one.number


# ---- consumers


def test_what_a_consumer_holds_and_has_settled_is_said_again() -> None:
    cluster = Cluster()
    group = cluster.group
    session = cluster.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", messages=100, size=1000)
    producer.send(*"abcde")
    commands = group.take_taken()
    opened, publish = commands[1], commands[2]
    cluster.reply(group, stored(publish), delivery(opened, publish, 10))
    a, b, c, d, _ = consumer.take()
    consumer.ack(a)
    consumer.nack(b, reason="bad")
    consumer.ack(c)
    consumer.renew(d)
    settles = [each.settle.number for each in group.take_taken() if isinstance(each, SettleMessages)]
    assert settles == [1, 2, 3, 4]
    cluster.reply(group, SettledTo(consumer_key(opened), 1))

    cluster.fail_over(group)
    again = group.take_taken()
    assert kinds(again) == ["OpenProducer", "OpenConsumer", "SettleMessages", "SettleMessages"]
    reopened = again[1]
    assert isinstance(reopened, OpenConsumer) and reopened.held == [(11, 15)]
    assert [each.settle.number for each in again if isinstance(each, SettleMessages)] == [2, 3]
    assert [each.settle.outcome for each in again if isinstance(each, SettleMessages)] == [
        Outcome.NACK,
        Outcome.ACKNOWLEDGE,
    ]
    cluster.reply(group, SettledTo(consumer_key(opened), 3))
    assert consumer.settled == 3
    cluster.fail_over(group, 12)
    again = group.take_taken()
    assert isinstance(again[1], OpenConsumer) and again[1].held == [(13, 15)]


def consumer_key(opened: object) -> tuple[bytes, int]:
    assert isinstance(opened, OpenConsumer)
    return opened.key


def test_credit_goes_on_where_it_was() -> None:
    cluster = Cluster()
    group = cluster.group
    session = cluster.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", messages=10, size=10_000)
    producer.send("a", "b", "c")
    commands = group.take_taken()
    opened, publish = commands[1], commands[2]
    assert isinstance(publish, Publish)
    size = len(publish.block.data)
    cluster.reply(group, stored(publish), delivery(opened, publish, 0))
    cluster.fail_over(group)
    again = group.take_taken()[1]
    assert isinstance(again, OpenConsumer) and (again.messages, again.bytes) == (7, 10_000 - size)
    consumer.grant(20, 20_000)
    (grant,) = group.take_taken()
    assert grant == GrantCredit(again.key, 17, 20_000 - size)


def test_what_comes_before_a_consumer_is_open_again_is_dropped() -> None:
    cluster = Cluster()
    group = cluster.group
    session = cluster.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send("a")
    opened, publish = group.take_taken()[1:]
    group.answers["consumer.open"] = {}
    cluster.reply(group, stored(publish))
    # The group answers the opening too late: its deliveries are not taken before.
    late = LateOpening(group)
    cluster.groups[1] = late
    cluster.fail_over(late)
    cluster.reply(late, delivery(opened, publish, 0))
    assert consumer.take() == []
    cluster.reply(late, late.answer())
    cluster.reply(late, delivery(opened, publish, 0))
    assert consumer.bodies() == ["a"]


class LateOpening(ScriptedGroup):
    def __init__(self, group: ScriptedGroup) -> None:
        super().__init__(group.number, group.epoch, group.primary)
        self._late: list[OpenConsumer] = []

    def _answer(self, command: Command) -> Reply | None:
        if isinstance(command, OpenConsumer):
            self._late.append(command)
            return None
        return super()._answer(command)

    def answer(self) -> Reply:
        reply = super()._answer(self._late.pop())
        assert reply is not None
        return reply


def test_a_consumer_is_told_what_is_not_its_own_any_more() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    session = client.session()
    producer = session.producer("queue:orders")
    consumer = session.consumer("queue:orders")
    producer.send(*"abcd")
    opened, publish = group.take_taken()[1:]
    cluster.reply(group, stored(publish), delivery(opened, publish, 0))
    group.answers["consumer.open"] = {"kept": [[0, 1], [3, 4]]}
    cluster.fail_over(group)
    (notice,) = client.take(FrameType.NOTICE)
    assert notice.fields() == {"consumer": consumer.number, "gone": [1, 3]}


def test_a_consumer_that_can_not_be_opened_again_ends() -> None:
    cluster = Cluster()
    consumer = cluster.connect().session().consumer("queue:orders")
    cluster.group.answers["consumer.open"] = InvalidDestination("queue:orders has been deleted.")
    cluster.fail_over(cluster.group)
    assert consumer.ended is not None and consumer.ended["code"] == InvalidDestination.code
    cluster.fail_over(cluster.group, 12)
    assert cluster.group.take_taken() == []


def test_a_replay_goes_on_behind_what_came_and_a_browse_begins_anew() -> None:
    cluster = Cluster()
    group = cluster.group
    session = cluster.connect().session()
    producer = session.producer("topic:news")
    session.consumer("topic:news", mode="replay", start={"at": "earliest"})
    session.consumer("queue:orders", mode="browse")
    producer.send(*"abc")
    _, replay, browse, publish = group.take_taken()
    cluster.reply(group, stored(publish), delivery(replay, publish, 40), delivery(browse, publish, 0))
    cluster.fail_over(group)
    again = group.take_taken()
    assert kinds(again) == ["OpenProducer", "OpenConsumer", "CloseConsumer", "OpenConsumer"]
    assert isinstance(again[1], OpenConsumer) and again[1].start == {"offset": 43} and again[1].held is None


def test_a_session_whose_client_is_away_keeps_its_locks_and_gets_nothing() -> None:
    cluster = Cluster()
    client = cluster.connect()
    client.session().consumer("queue:orders")
    cluster.hang_up(client)
    cluster.fail_over(cluster.group)
    opened, pause = cluster.group.take_taken()
    assert isinstance(opened, OpenConsumer) and opened.messages == 0 and isinstance(pause, PauseSession)


# ---- links


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


# ---- the bus has no room


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


def test_too_much_that_waits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.client_manager.group_link.COMMANDS_WAITING_MAX", 3)
    cluster = Cluster()
    consumer = cluster.connect().session().consumer("queue:orders")
    cluster.room = 0
    for number in range(1, 6):
        consumer.grant(number)
    assert cluster.port.congested
    cluster.room = None
    cluster.port.room(1)
    cluster.settle()
    assert not cluster.port.congested


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


# ---- client ids


def test_a_client_id_is_claimed_before_the_client_is_welcome() -> None:
    group = ScriptedGroup(1)
    one, two = Cluster([group]), Cluster([group], node=2)
    one.connect("me")
    assert kinds(group.take_taken()) == ["client_id.claim"]
    with pytest.raises(Exception, match="in use"):
        two.connect("me")
    group.take_taken()


def test_a_claim_waits_for_the_group_and_gives_up_with_the_login() -> None:
    group = ScriptedGroup(1)
    cluster = Cluster([group], login=3.0)
    group.silent = True
    client = cluster.dial()
    with pytest.raises(IndexError):
        client.hello("me")
    group.silent = False
    cluster.fail_over(group)
    assert len(client.take(FrameType.WELCOME)) == 1
    group.silent = True
    other = cluster.dial()
    with pytest.raises(IndexError):
        other.hello("you")
    cluster.advance(4.0)
    assert not other.open and client.open


def test_a_client_keeps_its_client_id_when_it_comes_to_another_client_manager() -> None:
    group = ScriptedGroup(1)
    one, two = Cluster([group]), Cluster([group], node=2)
    client = one.connect("me")
    session = client.session()
    session.consumer("queue:orders")
    group.take_taken()
    group.link = 1
    again = two.connect("me", resume=client)
    assert again.identity == client.identity and not again.welcome["resumed"]
    resumed = again.session(1, session)
    assert resumed.producer_id == session.producer_id and resumed.epoch == session.epoch + 1
    taken = [each for each in group.taken if isinstance(each, Administer)]
    assert [each.operation for each in taken] == ["connection.keep", "client_id.claim"]
    assert taken[0].fields == {"connections": [client.identity]}


def test_claims_are_made_again_on_a_new_link_and_released_at_the_end() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect("me")
    cluster.fail_over(group)
    assert kinds(group.take_taken()) == ["client_id.claim"]
    client.goodbye()
    assert kinds(group.take_taken()) == ["CloseConnection", "client_id.release"]
    cluster.fail_over(group, 12)
    assert group.take_taken() == []


def test_who_lost_its_client_id_meanwhile_has_to_go() -> None:
    cluster = Cluster()
    client = cluster.connect("me")
    cluster.group.claims["me"] = b"somebody else..."
    cluster.fail_over(cluster.group)
    assert not client.open


def test_set_later_it_is_claimed_too() -> None:
    group = ScriptedGroup(1)
    one, two = Cluster([group]), Cluster([group], node=2)
    one.connect().request("client_id.set", client_id="me")
    with pytest.raises(Exception, match="in use"):
        two.connect().request("client_id.set", client_id="me")


# ---- status


def test_the_status_of_the_cluster() -> None:
    cluster = Cluster()
    group = cluster.group
    cluster.port.message(1, group.primary, 1, group.status(live_bytes=5), cluster.now)
    cluster.port.member_changed(1, group.primary, 1, MemberState.UP, cluster.now)
    status = cluster.connect().request("cluster.status")
    (found,) = status["groups"]
    assert (found["primary"], found["epoch"], found["linked"]) == (group.primary, group.epoch, True)
    assert found["in_sync"] == [10, 11] and (found["committed"], found["last"]) == (7, 9)
    assert [(each["node"], each["state"]) for each in found["members"]] == [(10, "up"), (11, "unknown")]
