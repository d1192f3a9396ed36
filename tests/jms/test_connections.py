"""Section E, J50 to J53, J55 and J58: login, starting and stopping, client ids, metadata, the shape of the API."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.jms.names import Named
from tests.jms.servers import open_journal
from tests.jms.waiting import PATIENCE, SILENCE, is_silent, take, until

import tocsin
from tocsin import errors
from tocsin.model.limits import PASSWORD_ITERATIONS_MIN
from tocsin.runtime.users_file import UsersFile, new_salt
from tocsin.wire.scram import Credentials, make_credentials

GUARDED = pytest.mark.own_server("it needs users; who may log in is asked of one client manager alone")

# J50


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tocsin.Server]:
    """A server that knows one user."""
    folder = tmp_path_factory.mktemp("guarded")
    users_file = folder / "users"
    add_user(users_file, "alice", "correct horse")
    with tocsin.Server(folder / "data", users_file=users_file) as running:
        open_journal(running, user="alice", password="correct horse")
        yield running


def add_user(users_file: Path, name: str, password: str) -> None:
    credentials = make_credentials(name, password, salt=new_salt(), iterations=PASSWORD_ITERATIONS_MIN)
    UsersFile(users_file, Credentials).add(credentials)


@GUARDED
def test_j50_user_and_password_open_a_connection(guarded_server: tocsin.Server, named: Named) -> None:
    """With the right name and password, given as arguments or in the address, a client can work."""
    with_user = guarded_server.url.replace("tocsin://", "tocsin://alice:correct%20horse@")
    for connection in (
        tocsin.connect(guarded_server.url, user="alice", password="correct horse"),
        tocsin.connect(with_user),
    ):
        with connection, connection.session() as session:
            queue = session.queue(named("queue"))
            session.producer(queue).send("text")
            assert take(session.consumer(queue)).body == "text"


@GUARDED
@pytest.mark.parametrize(
    ("user", "password"),
    [("alice", "wrong"), ("mallory", "correct horse"), ("alice", ""), (None, None)],
    ids=["wrong password", "unknown user", "empty password", "no login"],
)
def test_j50_a_refused_login_is_a_security_failure(
    guarded_server: tocsin.Server, user: str | None, password: str | None
) -> None:
    """A wrong password, an unknown user and no login at all are refused when connecting, at once."""
    with pytest.raises(errors.SecurityFailure):
        tocsin.connect(guarded_server.url, user=user, password=password)


# J51


def test_j51_a_connection_starts_stopped_when_asked_to(
    server: tocsin.Server, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """With autostart off, messages arrive only after `start`; sending needs no start."""
    with tocsin.connect(server.url, autostart=False) as connection, connection.session() as stopped:
        consumer = stopped.consumer(queue)
        stopped.producer(queue).send("text")
        assert is_silent(consumer)

        connection.start()

        assert take(consumer).body == "text"


def test_j51_stop_holds_back_deliveries_until_start(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """After `stop` nothing is handed out, not even what the client holds already; `start` resumes in order."""
    producer, consumer = session.producer(queue), session.consumer(queue)
    for body in "abc":
        producer.send(body)
    assert take(consumer).body == "a"

    connection.stop()
    assert is_silent(consumer)
    assert consumer.receive_nowait() is None
    producer.send("d")
    connection.start()

    assert [take(consumer).body for _ in range(3)] == ["b", "c", "d"]


def test_j51_stop_and_start_may_be_repeated(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Stopping a stopped connection or starting a started one does nothing."""
    consumer = session.consumer(queue)
    connection.stop()
    connection.stop()
    session.producer(queue).send("text")
    assert is_silent(consumer)
    connection.start()
    connection.start()

    assert take(consumer).body == "text"


def test_j51_stop_holds_back_listeners_and_waits_for_them(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """`stop` returns only when the listener at work has returned; no listener is called until `start`."""
    entered, release, bodies = threading.Event(), threading.Event(), []
    returned_at: list[float] = []

    def listener(message: tocsin.Message) -> None:
        entered.set()
        assert release.wait(PATIENCE)
        bodies.append(message.body)
        returned_at.append(time.monotonic())

    session.producer(queue).send_many(["first", "second"])
    session.consumer(queue).on_message = listener
    assert entered.wait(PATIENCE)
    stopped_at: list[float] = []

    def stop() -> None:
        connection.stop()
        stopped_at.append(time.monotonic())

    stopper = threading.Thread(target=stop)
    stopper.start()
    stopper.join(SILENCE)
    assert stopper.is_alive(), "stop must wait for the listener"

    release.set()
    stopper.join(PATIENCE)

    assert not stopper.is_alive()
    assert bodies == ["first"]
    assert returned_at[0] <= stopped_at[0]
    time.sleep(SILENCE)
    assert bodies == ["first"], "a listener was called while the connection was stopped"
    connection.start()
    until(lambda: bodies == ["first", "second"], "the listener goes on")


def test_j51_receive_timers_run_while_stopped(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A receive with a timeout on a stopped connection returns nothing when its time is over."""
    consumer = session.consumer(queue)
    session.producer(queue).send("text")
    connection.stop()

    begun = time.monotonic()
    assert consumer.receive(timeout=0.2) is None
    assert 0.2 <= time.monotonic() - begun < PATIENCE


def test_j51_a_receive_that_waits_gets_its_message_after_start(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A receive called while stopped waits, and returns the message once the connection starts."""
    consumer = session.consumer(queue)
    connection.stop()
    session.producer(queue).send("text")
    bodies: list[object] = []
    waiter = threading.Thread(target=lambda: bodies.append(take(consumer).body))
    waiter.start()
    waiter.join(SILENCE)
    assert bodies == []

    connection.start()
    waiter.join(PATIENCE)

    assert bodies == ["text"]


# J52


def test_j52_the_first_consumer_starts_the_connection(server: tocsin.Server, named: Named) -> None:
    """By default no start is needed: making a consumer starts the delivery, listener or not."""
    with tocsin.connect(server.url) as connection, connection.session() as session:
        queue = session.queue(named("queue"))
        session.producer(queue).send_many(["a", "b"])
        consumer = session.consumer(queue)
        assert take(consumer).body == "a"


def test_j52_autostart_can_be_switched_off(server: tocsin.Server, named: Named) -> None:
    """Without autostart neither a consumer nor a listener starts the connection."""
    with tocsin.connect(server.url, autostart=False) as connection, connection.session() as session:
        queue = session.queue(named("queue"))
        session.producer(queue).send("text")
        bodies: list[object] = []
        session.consumer(queue).on_message = lambda message: bodies.append(message.body)
        time.sleep(SILENCE)
        assert bodies == []

        connection.start()

        until(lambda: bodies == ["text"], "the listener is called")


def test_j52_a_stopped_connection_is_not_started_by_another_consumer(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination, named: Named
) -> None:
    """Autostart means the first consumer: after `stop` a further one leaves the connection stopped."""
    session.consumer(session.queue(named("first")))
    connection.stop()
    session.producer(queue).send("text")

    consumer = session.consumer(queue)

    assert is_silent(consumer)
    connection.start()
    assert take(consumer).body == "text"


# J53


def test_j53_client_id_is_set_when_connecting_or_first_thing(server: tocsin.Server, named: Named) -> None:
    """A client id can be given to connect, or be set on a connection that did nothing yet."""
    first, second = named("one"), named("two")
    with tocsin.connect(server.url, client_id=first) as connection:
        assert connection.client_id == first
    with tocsin.connect(server.url) as connection:
        before = connection.client_id
        connection.client_id = second
        assert (before, connection.client_id) == (None, second)
        with connection.session() as session:
            session.durable_consumer(session.topic(named("topic")), "name").close()


def test_j53_client_id_after_first_use_is_illegal(server: tocsin.Server, named: Named) -> None:
    """Once the connection was used, or has a client id, setting one raises IllegalState and changes nothing."""
    with tocsin.connect(server.url) as connection:
        connection.session().close()
        with pytest.raises(errors.IllegalState):
            connection.client_id = named("late")
        assert connection.client_id is None
    given = named("given")
    with tocsin.connect(server.url, client_id=given) as connection:
        with pytest.raises(errors.IllegalState):
            connection.client_id = named("other")
        assert connection.client_id == given


def test_j53_a_client_id_in_use_is_refused(server: tocsin.Server, named: Named) -> None:
    """Two live connections cannot have the same client id, set either way; once the first is closed it is free."""
    name = named("client")
    with tocsin.connect(server.url, client_id=name):
        with pytest.raises(errors.InvalidClientId):
            tocsin.connect(server.url, client_id=name)
        with tocsin.connect(server.url) as other, pytest.raises(errors.InvalidClientId):
            other.client_id = name
    with tocsin.connect(server.url, client_id=name) as again:
        assert again.client_id == name


@pytest.mark.parametrize("wrong", ["", "x" * 300])
def test_j53_a_malformed_client_id_is_refused(server: tocsin.Server, wrong: str) -> None:
    """An empty or overlong client id is InvalidClientId."""
    with pytest.raises(errors.InvalidClientId):
        tocsin.connect(server.url, client_id=wrong)


# J55


def test_j55_metadata_tells_what_is_at_the_other_end(connection: tocsin.Connection) -> None:
    """JMS version 3.1, the provider's name and version, and the JMSX properties."""
    metadata = connection.metadata

    assert metadata.jms_version == "3.1"
    assert metadata.provider == "tocsin"
    assert metadata.provider_version == tocsin.__version__
    assert metadata.server.startswith("tocsin")
    assert "JMSXDeliveryCount" in metadata.jmsx_properties


# J58


def test_j58_one_session_serves_queues_and_topics_alike(
    session: tocsin.Session, queue: tocsin.Destination, topic: tocsin.Destination
) -> None:
    """One set of classes for both domains: the same calls on a queue and a topic, in one session."""
    for destination in (queue, topic):
        consumer = session.consumer(destination)
        session.producer(destination).send("text")
        assert take(consumer).body == "text"


def test_j58_the_short_form_needs_no_more_than_four_lines(server: tocsin.Server, named: Named) -> None:
    """The simplified shape: context managers close everything, bodies go in and come out bare."""
    with tocsin.connect(server.url) as connection, connection.session() as session:
        queue = session.queue(named("queue"))
        session.producer(queue, priority=7, ttl=60, delay=0).send("text", properties={"region": "EU"})
        assert session.consumer(queue).receive_body(str, timeout=PATIENCE) == "text"


def test_j58_calls_of_one_domain_are_refused_on_the_other(
    session: tocsin.Session, queue: tocsin.Destination, topic: tocsin.Destination
) -> None:
    """What only a queue can do is refused for a topic, and the other way round, like table 9-1 of the legacy API."""
    with pytest.raises(errors.TocsinError, match="topic"):
        list(session.browser(topic))
    with pytest.raises(errors.TocsinError, match="queue"):
        session.shared_consumer(queue, "name")
    with pytest.raises(errors.TocsinError, match="queue"):
        session.shared_durable_consumer(queue, "name")
    with pytest.raises(errors.TocsinError, match="queue"):
        session.durable_consumer(queue, "name")
    session.producer(queue).send("text")
    assert take(session.consumer(queue)).body == "text"


# J59


def test_j59_request_waits_for_the_reply_on_a_queue(
    session: tocsin.Session, other_connection: tocsin.Connection, queue: tocsin.Destination
) -> None:
    """`request` sends with a temporary reply-to and returns the answer that comes there."""
    with other_connection.session() as service:
        consumer = service.consumer(queue)
        server_thread = threading.Thread(target=answer, args=(service, consumer, 2))
        server_thread.start()

        replies = [session.request(queue, body, timeout=PATIENCE) for body in ("one", "two")]
        server_thread.join(PATIENCE)

    assert [reply.body for reply in replies] == ["ONE", "TWO"]


def test_j59_request_works_on_a_topic(
    session: tocsin.Session, other_connection: tocsin.Connection, topic: tocsin.Destination
) -> None:
    """The same through a topic, with properties and headers of the request."""
    with other_connection.session() as service:
        consumer = service.consumer(topic, "urgent")
        server_thread = threading.Thread(target=answer, args=(service, consumer, 1))
        server_thread.start()

        reply = session.request(topic, "text", timeout=PATIENCE, properties={"urgent": True}, correlation_id="7")
        server_thread.join(PATIENCE)

    assert (reply.body, reply.correlation_id) == ("TEXT", "7")


def answer(service: tocsin.Session, consumer: tocsin.Consumer, count: int) -> None:
    producer = service.producer()
    for _ in range(count):
        request = take(consumer)
        producer.send(str(request.body).upper(), request.reply_to, correlation_id=request.correlation_id)


def test_j59_a_request_without_an_answer_times_out(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """When no reply comes in the time given, TimedOut says so, and the session goes on."""
    with pytest.raises(errors.TimedOut):
        session.request(queue, "anybody?", timeout=0.1)

    assert take(session.consumer(queue)).body == "anybody?"
