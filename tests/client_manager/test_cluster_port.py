"""Fail-over as a client manager sees it: what was not confirmed is said again, and clients notice nothing."""

from __future__ import annotations

from tests.client_manager.scripted_groups import Cluster, ScriptedGroup, delivery, kinds, stored

from tocsin.bus.membership import MemberState
from tocsin.cluster.commands import (
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
from tocsin.model.errors import IllegalState, InvalidDestination
from tocsin.model.ranges import pack_ranges
from tocsin.wire.frames import FrameType, Outcome


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
    assert kinds(again) == ["OpenProducer", "OpenConsumer", "SettleMessages", "SettleMessages", "SettleMessages"]
    reopened = again[1]
    assert isinstance(reopened, OpenConsumer) and reopened.held == [(11, 15)]
    assert [each.settle.number for each in again if isinstance(each, SettleMessages)] == [2, 3, 4]
    assert [(each.settle.outcome, each.settle.ranges) for each in again if isinstance(each, SettleMessages)] == [
        (Outcome.NACK, [(11, 12)]),
        (Outcome.ACKNOWLEDGE, [(12, 13)]),
        (Outcome.RENEW, []),
    ], "a renewal is said again for its number alone"
    cluster.reply(group, SettledTo(consumer_key(opened), 3))
    assert consumer.settled == 3
    cluster.fail_over(group, 12)
    again = group.take_taken()
    assert isinstance(again[1], OpenConsumer) and again[1].held == [(13, 15)]


def test_only_the_last_word_about_a_message_is_said_again() -> None:
    cluster = Cluster()
    group = cluster.group
    session = cluster.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send(*"abc")
    opened, publish = group.take_taken()[1:]
    cluster.reply(group, stored(publish), delivery(opened, publish, 0))
    consumer.nack(*consumer.take())
    cluster.reply(group, delivery(opened, publish, 0))
    a, _, _ = consumer.take()
    consumer.ack(a)
    cluster.fail_over(group)
    again = group.take_taken()
    assert isinstance(again[1], OpenConsumer) and again[1].held == [(0, 3)]
    settles = [each.settle for each in again if isinstance(each, SettleMessages)]
    assert [(each.number, each.outcome, each.ranges) for each in settles] == [
        (1, Outcome.NACK, []),
        (2, Outcome.ACKNOWLEDGE, [(0, 1)]),
    ]


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
    group.answers["consumer.open"] = {"kept": pack_ranges([(0, 1), (3, 4)])}
    cluster.fail_over(group)
    (notice,) = client.take(FrameType.NOTICE)
    assert notice.fields() == {"consumer": consumer.number, "gone": pack_ranges([(1, 3)])}


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
