"""Clients that come back: what their client manager had of them before counts only as far as they open it again."""

from __future__ import annotations

from tests.client_manager.scripted_groups import Cluster, delivery, kinds

from tocsin.cluster.commands import CloseConsumer, ConsumerEnded, NotStored, OpenConsumer, OpenProducer, Publish
from tocsin.model.errors import IllegalState
from tocsin.wire.frames import FrameType


def test_what_a_client_that_came_back_does_not_open_again_is_not_said_again() -> None:
    """It may have closed it elsewhere: nobody would read what a consumer of nobody is given."""
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    session = client.session()
    session.producer("queue:orders")
    session.consumer("queue:closed.elsewhere")
    kept = session.consumer("queue:kept")
    cluster.hang_up(client)
    again = cluster.connect(resume=client)
    session = again.session(former=session)
    session.consumer("queue:kept", former=kept)
    group.take_taken()
    cluster.fail_over(group)
    (opened,) = group.take_taken()
    assert isinstance(opened, OpenConsumer) and opened.consumer == kept.number


def test_what_a_client_closed_while_it_was_away_is_closed_when_it_comes_back() -> None:
    cluster = Cluster()
    client = cluster.connect()
    session = client.session()
    consumer = session.consumer("queue:orders")
    cluster.hang_up(client)
    again = cluster.connect(resume=client)
    again.session(former=session)
    cluster.group.take_taken()
    again.request("consumer.close", on=1, consumer=consumer.number)
    (closed,) = cluster.group.take_taken()
    assert isinstance(closed, CloseConsumer) and closed.key == (session.producer_id, consumer.number)


def test_a_refusal_of_what_was_said_again_does_not_end_the_consumer_of_a_client_that_is_back() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    session = client.session()
    consumer = session.consumer("queue:orders")
    cluster.hang_up(client)
    group.answers["consumer.open"] = IllegalState("The session has moved on.")
    group.silent = True
    cluster.fail_over(group)
    again = cluster.connect(resume=client)
    reopened = again.session(former=session)
    group.silent = False
    cluster.heartbeat(group)
    cluster.advance(10.0)
    cluster.heartbeat(group)
    assert [each for each in again.take(FrameType.NOTICE) if each.fields().get("end")] == []
    del group.answers["consumer.open"]
    assert reopened.consumer("queue:orders", former=consumer).number == consumer.number


def test_what_is_delivered_to_a_consumer_before_its_client_has_opened_it_again_is_dropped() -> None:
    """It comes once more behind the answer."""
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    session = client.session()
    producer, _ = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send("a")
    opened, publish = group.take_taken()[1:]
    cluster.hang_up(client)
    again = cluster.connect(resume=client)
    again.session(former=session)
    cluster.reply(group, delivery(opened, publish, 0))
    assert again.take(FrameType.DELIVER) == []


def test_a_refused_block_leaves_those_before_it_to_be_said_again() -> None:
    cluster = Cluster()
    group = cluster.group
    producer = cluster.connect().session().producer("queue:orders")
    producer.send("waits for its copies")
    producer.send("refused")
    first, second = group.take_taken()[-2:]
    assert isinstance(second, Publish)
    cluster.reply(group, NotStored(second.session, second.producer, 2, 2, IllegalState("No.")))
    cluster.fail_over(group)
    opened, again = group.take_taken()
    assert isinstance(opened, OpenProducer) and isinstance(again, Publish) and isinstance(first, Publish)
    assert again.block.first_sequence == first.block.first_sequence == 1


def test_what_clients_asked_for_that_are_gone_is_not_said_again() -> None:
    """A group that was too busy with it to answer would be so again and again."""
    cluster = Cluster()
    group = cluster.group
    gone, there = cluster.connect(), cluster.connect()
    group.answers["destination.list"] = {"destinations": [], "more": False}
    group.silent = True
    for client in (gone, there):
        client.ask("destination.list")
        client.ask("temporary.create", kind="queue")
    gone.goodbye()
    group.silent = False
    cluster.fail_over(group)
    assert kinds(group.take_taken()) == ["destination.list", "temporary.create", "CloseConnection"]


def test_the_end_of_a_consumer_that_is_really_over_is_told() -> None:
    cluster = Cluster()
    client = cluster.connect()
    consumer = client.session().consumer("queue:orders")
    opened = cluster.group.take_taken()[-1]
    assert isinstance(opened, OpenConsumer)
    cluster.reply(cluster.group, ConsumerEnded(opened.key, IllegalState("It was deleted.")))
    (notice,) = client.take(FrameType.NOTICE)
    assert notice.fields()["consumer"] == consumer.number and notice.fields()["end"]
