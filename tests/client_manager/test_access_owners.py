"""Who may do what to another's: temporary destinations, client ids, durable subscriptions, and what one may have."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from tests.client_manager.real_group import RealGroup
from tests.client_manager.scripted_groups import Cluster, ScriptedGroup

from tocsin.client_manager.requests import ADMINISTRATION
from tocsin.message_manager.state_hash import state_hash
from tocsin.model.destination import parse_destination
from tocsin.model.errors import (
    AccessDenied,
    AuthenticationFailed,
    InvalidClientId,
    InvalidDestination,
    ResourceExhausted,
    TocsinError,
)
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.testing.scripted_session import error_of
from tocsin.wire.frames import FrameType
from tocsin.wire.scram import Credentials, make_credentials

ANNA, BEN = ("anna", "anna's password"), ("ben", "ben's password")


@lru_cache
def credentials(name: str, password: str) -> Credentials:
    return make_credentials(name, password, salt=b"salt" * 4)


def users(*logins: tuple[str, str]) -> dict[str, Credentials]:
    return {name: credentials(name, password) for name, password in logins}


@pytest.fixture
def known() -> dict[str, Credentials]:
    return users(ANNA, BEN)


@pytest.fixture
def driver(known: dict[str, Credentials]) -> Driver:
    return Driver(Setup(find_user=known.get))


# ---- temporary destinations

REQUESTS: dict[str, dict[str, Any] | None] = {
    "destination.create": {"destination": "queue:T"},
    "destination.delete": {"destination": "queue:T"},
    "destination.purge": {"destination": "queue:T"},
    "destination.list": None,
    "destination.show": {"destination": "queue:T"},
    "offset.range": {"destination": "queue:T"},
    "offset.at": {"destination": "queue:T", "time_ms": 1},
    "offset.cuts": {"destination": "queue:T", "start": 0, "end": 1, "parts": 1},
    "offset.files": {"destination": "queue:T", "start": 0, "end": 1},
    "hold.set": {"destination": "queue:T", "name": "h", "offset": 0, "seconds": 9},
    "hold.release": {"destination": "queue:T", "name": "h"},
    "subscription.delete": None,
    "dead.resend": None,
    "drain.take": {"destination": "queue:T", "drain": "d", "after": 0},
    "drain.list": {"destination": "queue:T", "drain": "d"},
    "drain.finish": {"destination": "queue:T", "drain": "d", "upto": 1},
    "drain.release": {"destination": "queue:T", "drain": "d"},
    "stage.open": {"destination": "queue:T", "stage": b"s" * 16},
    "stage.claim": {"destination": "queue:T", "app": "a"},
    "stage.commit": {"app": "a", "epoch": 1, "stages": [{"destination": "queue:T", "stage": b"s" * 16}]},
    "stage.drop": {"stages": [{"destination": "queue:T", "stage": b"s" * 16}]},
    "stage.last": {"app": "a", "destinations": ["queue:T"]},
    "session.open": None,
    "session.close": None,
    "producer.open": None,
    "producer.close": None,
    "consumer.open": {"consumer": 1, "destination": "queue:T"},
    "consumer.close": None,
    "temporary.create": None,
    "client_id.set": None,
    "cluster.status": None,
}
"""What another connection says to name the temporary queue T; None: the request names no destination, or sends."""
MODES = {"consumer.open": ["consume", "browse", "replay"]}


def named(fields: Any, name: str) -> Any:
    if isinstance(fields, dict):
        return {key: named(value, name) for key, value in fields.items()}
    if isinstance(fields, list):
        return [named(each, name) for each in fields]
    return name if fields == "queue:T" else fields


def test_every_request_says_what_others_may_do_to_a_temporary_destination() -> None:
    table = set(ADMINISTRATION) | set(Driver().broker.clients._requests_table)
    assert set(REQUESTS) == table, "a new request needs a line here"


@pytest.mark.parametrize(
    ("operation", "mode"),
    [(each, mode) for each, fields in REQUESTS.items() if fields is not None for mode in MODES.get(each, [""])],
)
def test_others_do_nothing_to_a_temporary_queue(operation: str, mode: str) -> None:
    driver = Driver()
    owner, other = driver.connect(), driver.connect()
    name = owner.request("temporary.create", kind="queue")["destination"]
    producer = owner.session().producer(name)
    producer.send(b"mine")
    other.session()
    with pytest.raises(InvalidDestination, match=r"only the connection that created it|can't be created by its name"):
        other.request(operation, on=1, **named(REQUESTS[operation], name), mode=mode)
    shown = owner.request("destination.show", destination=name)
    assert (shown["messages"], shown["staged"], shown["drains"]) == (1, 0, [])


def test_others_send_to_a_temporary_queue() -> None:
    driver = Driver()
    owner, other = driver.connect(), driver.connect()
    name = owner.request("temporary.create", kind="queue")["destination"]
    other.session().producer(name).send(b"an answer")
    assert owner.request("destination.show", destination=name)["messages"] == 1
    assert owner.request("destination.purge", destination=name) and owner.request(
        "destination.delete", destination=name
    )


# ---- client ids and subscriptions


def subscribe(client: ScriptedClient, **terms: Any) -> ScriptedClient:
    client.session()
    wanted = {"consumer": 1, "destination": "topic:t", "subscription": "s", "durable": True, "messages": 10, **terms}
    client.request("consumer.open", on=1, **wanted)
    return client


def test_a_client_id_is_refused_to_another_user_while_its_owner_is_there_or_away(driver: Driver) -> None:
    anna = driver.connect("orders", login=ANNA)
    anna.session()
    for _ in range(2):
        with pytest.raises(InvalidClientId, match="another user"):
            driver.connect("orders", login=BEN)
        driver.hang_up(anna)
    assert driver.connect("orders", login=ANNA, resume=anna).welcome["resumed"]


def test_a_client_id_with_durable_subscriptions_is_their_owners_for_good(driver: Driver) -> None:
    subscribe(driver.connect("orders", login=ANNA)).goodbye()
    driver.settle()
    for life in (driver, driver.crash()):
        with pytest.raises(InvalidClientId, match="belongs to another user"):
            life.connect("orders", login=BEN)
    subscribe(life.connect("orders", login=ANNA))


@pytest.mark.parametrize("terms", [{}, {"destination": "topic:other"}, {"selector": "a = 1"}])
def test_a_shared_durable_subscription_is_opened_and_deleted_by_its_owner_alone(
    driver: Driver, terms: dict[str, Any]
) -> None:
    subscribe(driver.connect(login=ANNA), shared=True).goodbye()
    driver.settle()
    before = state_hash(driver.manager.directory)
    ben = driver.connect(login=BEN)
    with pytest.raises(AccessDenied, match="belongs to another user"):
        subscribe(ben, shared=True, **terms)
    with pytest.raises(AccessDenied, match="belongs to another user"):
        ben.request("subscription.delete", subscription="s")
    if not terms:
        assert state_hash(driver.manager.directory) == before
    subscribe(anna := driver.connect(login=ANNA), shared=True)
    anna.request("consumer.close", on=1, consumer=1)
    anna.request("subscription.delete", subscription="s")


def test_the_owner_is_in_records_snapshots_and_the_hash(driver: Driver) -> None:
    subscribe(driver.connect(login=ANNA), shared=True)
    ben = driver.connect(login=BEN)
    ben.request("destination.create", destination="queue:bens")
    directory = driver.manager.directory
    before = state_hash(directory)
    for life in (driver.crash(), driver.stop()):
        found = life.manager.directory
        ((_, view),) = found.durable.values()
        queue, known = found.find(parse_destination("queue:bens")), view.subscription
        assert known is not None and (known.owner, queue.owner) == ("anna", "ben")
        assert (found.made["ben"], found.made["anna"], found.durable.owned("anna")) == (1, 1, 1)
        assert state_hash(found) == before
        for owned, owner in ((known, "anna"), (queue, "ben")):
            owned.owner = "somebody else"
            assert state_hash(found) != before
            owned.owner = owner


def test_a_subscription_from_before_there_were_owners_is_everybodys() -> None:
    old = Driver()
    subscribe(old.connect("orders")).goodbye()
    old.settle()
    old.setup = replace(old.setup, find_user=users(ANNA, BEN).get)
    driver = old.crash()
    for login in (ANNA, BEN):
        client = subscribe(driver.connect("orders", login=login))
        client.goodbye()
        driver.settle()
    driver.setup = replace(driver.setup, find_user=None)
    subscribe(driver.connect(login=ANNA), shared=True, subscription="anna's")
    subscribe(driver.crash().connect(), shared=True, subscription="anna's")


def test_in_a_cluster_the_owner_is_asked_for_in_all_groups(known: dict[str, Credentials]) -> None:
    groups: list[ScriptedGroup] = [RealGroup(1), RealGroup(2)]
    cluster = Cluster(groups, find_user=known.get)
    anna = subscribe(cluster.connect("orders", login=ANNA))
    for _ in range(2):
        with pytest.raises(InvalidClientId, match="another user"):
            cluster.connect("orders", login=BEN)
        cluster.hang_up(anna)
    assert cluster.connect("orders", login=ANNA, resume=anna).welcome["resumed"]
    subscribe(cluster.connect(login=ANNA), shared=True).goodbye()
    ben = cluster.connect(login=BEN)
    ben.session()
    for topic in ("topic:t", "topic:elsewhere", "topic:another"):
        with pytest.raises(AccessDenied, match="belongs to another user"):
            ben.request(
                "consumer.open", on=1, consumer=1, destination=topic, subscription="s", durable=True, shared=True
            )
    with pytest.raises(AccessDenied, match="belongs to another user"):
        ben.request("subscription.delete", subscription="s")


# ---- names


@pytest.mark.parametrize("name", ["fu\u0308r", "gpj.\u202eexe"])
def test_a_misleading_name_is_refused_where_it_would_come_into_being(name: str) -> None:
    driver = Driver()
    client = driver.connect("me")
    client.session()
    made: dict[str, dict[str, Any]] = {
        "destination.create": {"destination": f"queue:{name}"},
        "producer.open": {"producer": 1, "destination": f"queue:{name}"},
        "consumer.open": {"consumer": 1, "destination": f"topic:{name}"},
    }
    for operation, fields in made.items():
        with pytest.raises(InvalidDestination, match=r"NFC|direction of text"):
            client.request(operation, on=1, **fields)
    with pytest.raises(InvalidDestination, match=r"NFC|direction of text"):
        subscribe(driver.connect("other"), subscription=name)
    with pytest.raises(InvalidClientId, match=r"NFC|direction of text"):
        driver.connect(name)
    assert not driver.manager.directory.has(name) and not driver.manager.directory.durable


def test_a_name_from_before_keeps_working(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "fu\u0308r"
    with monkeypatch.context() as former:
        for module in ("directory", "subscribing", "subscriptions"):
            former.setattr(f"tocsin.message_manager.{module}.check_spelling", lambda *_: None)
        driver = Driver()
        subscribe(driver.connect(name), destination=f"topic:{name}", subscription=name).goodbye()
        driver.settle()
    after = driver.stop()
    subscribe(after.connect(name), destination=f"topic:{name}", subscription=name)
    after.connect().session().producer(f"topic:{name}").send("there")


# ---- who has lost the right


def test_a_user_who_was_removed_or_has_another_password_is_sent_away(
    driver: Driver, known: dict[str, Credentials]
) -> None:
    anna, away, ben = (driver.connect(name, login=who) for name, who in (("a", ANNA), ("b", ANNA), ("c", BEN)))
    name = anna.request("temporary.create", kind="queue")["destination"]
    away.session()
    driver.hang_up(away)
    del known["anna"]
    assert driver.broker.clients.review() == 2
    driver.settle()
    farewell = error_of(anna.take(FrameType.FAILURE)[0].fields())
    assert isinstance(farewell, AuthenticationFailed) and "removed" in str(farewell)
    assert not anna.open and ben.request("destination.list")
    with pytest.raises(InvalidDestination):
        ben.session().producer(name)
    with pytest.raises(AuthenticationFailed):
        driver.connect("b", login=ANNA, resume=away)
    driver.connect("a", login=BEN)
    known["ben"] = users(("ben", "another password"))["ben"]
    assert driver.broker.clients.review() == 2
    driver.settle()
    assert not ben.open
    assert driver.broker.clients.review() == 0


# ---- how much one may have


@pytest.mark.parametrize("login", [None, ANNA])
def test_temporary_destinations_are_bounded(monkeypatch: pytest.MonkeyPatch, login: tuple[str, str] | None) -> None:
    monkeypatch.setattr("tocsin.message_manager.directory.TEMPORARIES_PER_USER_MAX", 3)
    driver = Driver(Setup(find_user=None if login is None else users(ANNA, BEN).get))
    client = driver.connect(login=login)
    first, *_ = [client.request("temporary.create", kind="topic")["destination"] for _ in range(3)]
    with pytest.raises(ResourceExhausted, match="at most 3 temporary destinations"):
        client.request("temporary.create", kind="topic")
    client.request("destination.delete", destination=first)
    client.request("temporary.create", kind="topic")
    second = driver.connect(login=login)
    if login is None:
        second.request("temporary.create", kind="topic")
    else:
        with pytest.raises(ResourceExhausted):
            second.request("temporary.create", kind="topic")
        driver.connect(login=BEN).request("temporary.create", kind="topic")
    client.goodbye()
    second.request("temporary.create", kind="topic")
    for each in list(driver.clients.values()):
        each.goodbye()
    assert not driver.manager.directory.temporary_made


def test_one_client_has_not_all_temporary_destinations_there_are() -> None:
    client = Driver().connect()
    with pytest.raises(ResourceExhausted, match="temporary destinations"):
        for _ in range(3_842):
            client.request("temporary.create", kind="queue")


def test_destinations_and_subscriptions_of_a_user_are_bounded(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    monkeypatch.setattr("tocsin.message_manager.directory.DESTINATIONS_PER_USER_MAX", 2)
    monkeypatch.setattr("tocsin.message_manager.subscribing.SUBSCRIPTIONS_PER_USER_MAX", 1)
    anna, ben = driver.connect(login=ANNA), driver.connect(login=BEN)
    subscribe(anna, shared=True)
    anna.sessions[1].producer("queue:made by sending".replace(" ", "-"))
    with pytest.raises(ResourceExhausted, match="at most 2 destinations"):
        anna.request("destination.create", destination="queue:third")
    with pytest.raises(ResourceExhausted, match="at most 1 durable subscriptions"):
        anna.request(
            "consumer.open", on=1, consumer=2, destination="topic:t", subscription="s2", durable=True, shared=True
        )
    ben.request("destination.create", destination="queue:third")
    anna.request("destination.delete", destination="queue:made-by-sending")
    anna.request("destination.create", destination="queue:fourth")


def test_destinations_that_stages_make_count_for_their_user(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    monkeypatch.setattr("tocsin.message_manager.directory.DESTINATIONS_PER_USER_MAX", 2)
    anna, ben = driver.connect(login=ANNA), driver.connect(login=BEN)
    for name in ("queue:a", "topic:b"):
        anna.request("stage.open", destination=name, stage=b"s" * 16)
    with pytest.raises(ResourceExhausted, match="at most 2 destinations"):
        anna.request("stage.open", destination="topic:c", stage=b"s" * 16)
    ben.request("stage.open", destination="topic:c", stage=b"s" * 16)
    assert driver.manager.directory.made == {"anna": 2, "ben": 1}


def test_one_user_does_not_take_all_places_for_applications(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    monkeypatch.setattr("tocsin.message_manager.stages.EPOCHS_PER_USER_MAX", 2)
    anna, ben = driver.connect(login=ANNA), driver.connect(login=BEN)
    anna.request("destination.create", destination="queue:q")
    for app in ("a", "b"):
        anna.request("stage.claim", app=app, destination="queue:q")
    with pytest.raises(ResourceExhausted, match="The user 'anna' has 2 applications"):
        anna.request("stage.claim", app="c", destination="queue:q")
    with pytest.raises(ResourceExhausted, match="The user 'anna' has 2 applications"):
        anna.request("stage.commit", app="c", epoch=0, stages=[])
    anna.request("stage.claim", app="a", destination="queue:q")
    ben.request("stage.claim", app="c", destination="queue:q")
    again = driver.crash().manager.directory
    assert sorted(str(row.owner) for row in again.epochs.rows.values()) == ["anna", "anna", "ben"]


def test_destinations_that_come_back_with_dead_messages_count_for_who_asked(
    monkeypatch: pytest.MonkeyPatch, driver: Driver
) -> None:
    anna, ben = driver.connect(login=ANNA), driver.connect(login=BEN)
    anna.request("destination.create", destination="queue:q", redelivery_limit=1)
    session = anna.session()
    producer, consumer = session.producer("queue:q"), session.consumer("queue:q")
    producer.send("a")
    consumer.nack(*consumer.take())
    session.close()
    anna.request("destination.delete", destination="queue:q")
    monkeypatch.setattr("tocsin.message_manager.directory.DESTINATIONS_PER_USER_MAX", 1)
    ben.request("destination.create", destination="queue:own")
    ben.request("dead.resend", offsets=[0, 1])
    assert [driver.manager.directory.has(name) for name in ("q", "own")] == [False, True], "it stays dead"
    ben.request("destination.delete", destination="queue:own")
    ben.request("dead.resend", offsets=[0, 1])
    assert driver.manager.directory.find(parse_destination("queue:q")).owner == "ben"
    assert driver.manager.directory.made["ben"] == 1


def test_connections_sessions_producers_and_consumers_of_a_user_are_bounded(
    monkeypatch: pytest.MonkeyPatch, driver: Driver
) -> None:
    for name in ("CONNECTIONS", "SESSIONS", "PRODUCERS", "CONSUMERS"):
        monkeypatch.setattr(f"tocsin.client_manager.quotas.{name}_PER_USER_MAX", 2)
    first, second = driver.connect(login=ANNA), driver.connect(login=ANNA)
    with pytest.raises(ResourceExhausted, match="A user has at most 2 connections"):
        driver.connect(login=ANNA)
    driver.connect(login=BEN)
    first.session(), second.session()
    with pytest.raises(ResourceExhausted, match="at most 2 sessions"):
        first.session(2)
    for client in (first, second):
        client.request("producer.open", on=1, producer=1, destination="queue:q")
        client.request("consumer.open", on=1, consumer=1, destination="queue:q")
    with pytest.raises(ResourceExhausted, match="at most 2 producers"):
        first.request("producer.open", on=1, producer=2, destination="queue:q")
    with pytest.raises(ResourceExhausted, match="at most 2 consumers"):
        first.request("consumer.open", on=1, consumer=2, destination="queue:q")
    first.request("producer.close", on=1, producer=1)
    first.request("consumer.close", on=1, consumer=1)
    for _ in range(3):
        with pytest.raises(TocsinError):
            first.request("producer.open", on=1, producer=2, destination="topic:q")
        with pytest.raises(TocsinError):
            first.request("consumer.open", on=1, consumer=2, destination="topic:q")
    first.request("producer.open", on=1, producer=2, destination="queue:q")
    first.request("consumer.open", on=1, consumer=2, destination="queue:q")
    usage = driver.broker.clients._registry.known[first.identity].usage
    for client in (first, second):
        client.goodbye()
    assert [getattr(usage, each).count for each in usage.__slots__] == [0, 0, 0, 0]
    assert list(driver.broker.clients._registry._usage) == ["ben"]
