"""J17, J26, J72 and J84: clients that vanish with messages in their hands."""

from __future__ import annotations

import asyncio
import queue as queues
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.jms.names import Named
from tests.jms.proxy import Proxy
from tests.jms.servers import abandon, open_journal
from tests.jms.waiting import is_silent, take
from tests.system.cluster_server import ClusterServer

import tocsin
from tocsin import aio, errors


@pytest.fixture(scope="module")
def server(
    cluster: ClusterServer | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tocsin.Server | ClusterServer]:
    """Sessions that vanish are given up soon, so that nobody waits long for their messages."""
    if cluster is not None:
        yield cluster
        return
    with tocsin.Server(tmp_path_factory.mktemp("data"), session_grace_s=0.5) as running:
        open_journal(running)
        yield running


_DYING_CLIENT = """
import sys
import tocsin

connection = tocsin.connect(sys.argv[1])
session = connection.session(ack="client")
consumer = session.consumer(session.queue(sys.argv[2]))
print(consumer.receive(timeout=15).body, flush=True)
sys.stdin.read()
"""


def test_j17_redelivered_is_set_after_a_client_was_killed(
    server: tocsin.Server, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A client is killed with a message in its hands: the next one gets it, flagged, with a count of 2 or more."""
    session.producer(queue).send("text")
    with subprocess.Popen(
        [sys.executable, "-c", _DYING_CLIENT, server.url, queue.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "text\n"
        client.kill()

    message = take(session.consumer(queue))
    assert message.redelivered
    assert message.properties["JMSXDeliveryCount"] >= 2


@pytest.mark.parametrize("acknowledged", [True, False])
def test_j72_acknowledge_raises_for_messages_that_others_got_while_the_session_was_away(
    proxy: Proxy, session: tocsin.Session, queue: tocsin.Destination, acknowledged: bool
) -> None:
    """Away for longer than the grace: what was in hand has gone to another consumer, and acknowledge() says so."""
    session.producer(queue).send_many(["a", "b"])
    with tocsin.connect(proxy.url) as connection, connection.session(ack="client") as away:
        consumer = away.consumer(queue)
        first, second = take(consumer), take(consumer)
        proxy.refuse()
        rival = session.consumer(queue)
        assert [take(rival).body, take(rival).body] == ["a", "b"]
        if acknowledged:
            session.acknowledge()
        proxy.allow()
        proxy.await_connection(2)
        with pytest.raises(errors.NotAcknowledged, match=f"2 messages of {queue} .offsets 0 to 1."):
            second.acknowledge()
        away.acknowledge()
        session.producer(queue).send("c")
        rival.close()
        third = take(consumer)
        while third.body != "c":
            third = take(consumer)
        away.acknowledge()
    assert first.body == "a"


def test_j72_ack_of_one_message_raises_when_it_came_again_meanwhile(
    proxy: Proxy, connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """The same message comes again, and its first delivery is not acknowledged."""
    session.producer(queue).send("a")
    with tocsin.connect(proxy.url) as cut_off, cut_off.session(ack="client") as away:
        consumer = away.consumer(queue)
        first = take(consumer)
        proxy.refuse()
        with connection.session(ack="client") as rival:
            assert take(rival.consumer(queue)).body == "a", "the grace is over"
        proxy.allow()
        again = take(consumer)
        assert (again.body, again.redelivered) == ("a", True)
        with pytest.raises(errors.NotAcknowledged, match=f"1 message of {queue} .offset 0."):
            first.ack()
        again.ack()
        away.acknowledge()
    assert is_silent(session.consumer(queue))


def test_j72_acknowledge_raises_for_what_ack_of_one_message_was_told_in_vain(
    proxy: Proxy, connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    told: queues.SimpleQueue[errors.TocsinError] = queues.SimpleQueue()
    session.producer(queue).send("a")
    with tocsin.connect(proxy.url) as cut_off, cut_off.session(ack="client") as away:
        cut_off.on_error = told.put
        consumer = away.consumer(queue)
        first = take(consumer)
        proxy.refuse()
        first.ack()
        with connection.session(ack="client") as rival:
            assert take(rival.consumer(queue)).body == "a", "the grace is over"
        proxy.allow()
        assert isinstance(told.get(timeout=15), errors.NotAcknowledged), "nobody waited for it"
        with pytest.raises(errors.NotAcknowledged, match=f"1 message of {queue} .offset 0."):
            away.acknowledge()
        away.acknowledge()


def test_j72_aio_acknowledge_raises_too(proxy: Proxy, session: tocsin.Session, queue: tocsin.Destination) -> None:
    session.producer(queue).send("a")

    async def scenario() -> None:
        async with await aio.connect(proxy.url) as connection, await connection.session(ack="client") as away:
            consumer = await away.consumer(queue)
            message = await consumer.receive(timeout=15)
            assert message is not None
            proxy.refuse()
            await asyncio.to_thread(take, session.consumer(queue))
            acknowledging = asyncio.ensure_future(away.acknowledge())
            proxy.allow()
            with pytest.raises(errors.NotAcknowledged, match=f"1 message of {queue}"):
                await acknowledging

    asyncio.run(scenario())


def test_j72_who_acknowledges_automatically_is_told_through_on_error(
    proxy: Proxy, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    told: queues.SimpleQueue[errors.TocsinError] = queues.SimpleQueue()
    session.producer(queue).send("a")
    with tocsin.connect(proxy.url) as connection, connection.session() as away:
        connection.on_error = told.put
        consumer = away.consumer(queue)
        take(consumer)
        proxy.refuse()
        take(session.consumer(queue))
        proxy.allow()
        error = told.get(timeout=15)
    assert isinstance(error, errors.NotAcknowledged) and f"1 message of {queue}" in str(error)


def test_j84_unacknowledged_messages_of_a_durable_subscription_outlive_their_session(
    server: tocsin.Server, proxy: Proxy, session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """The same for a durable subscription whose client's connection is cut for good."""
    client_id = named("client")
    lost = tocsin.connect(proxy.url, client_id=client_id, reconnect_timeout=0.1)
    consumer = lost.session(ack="client").durable_consumer(topic, "audit")
    session.producer(topic).send_many(["a", "b"])
    assert take(consumer).body == "a"
    proxy.refuse()
    abandon(lost)

    with connect_when_free(server.url, client_id) as connection, connection.session() as after:
        consumer = after.durable_consumer(topic, "audit")
        first, second = take(consumer), take(consumer)
    assert (first.body, first.redelivered) == ("a", True)
    assert second.body == "b"


def connect_when_free(url: str, client_id: str) -> tocsin.Connection:
    """The server holds the client id of a vanished connection for its grace time."""
    for _ in range(100):
        try:
            return tocsin.connect(url, client_id=client_id)
        except errors.InvalidClientId:
            threading.Event().wait(0.05)
    raise AssertionError("the client id never became free")
