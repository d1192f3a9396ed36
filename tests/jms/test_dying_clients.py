"""J17, J26 and J84: clients that vanish with messages in their hands."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.jms.names import Named
from tests.jms.proxy import Proxy
from tests.jms.servers import abandon, open_journal
from tests.jms.waiting import take
from tests.system.cluster_server import ClusterServer

import tocsin
from tocsin import errors


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
