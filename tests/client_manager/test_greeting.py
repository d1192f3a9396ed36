"""From the first frame to WELCOME: versions, logins, client ids, resuming."""

from __future__ import annotations

import pytest

from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.machine import ClientManager, Settings
from tocsin.model.errors import AuthenticationFailed, InvalidClientId, ProtocolError, TocsinError, from_code
from tocsin.model.limits import FRAME_BYTES_BEFORE_LOGIN
from tocsin.testing.disk import SeededRandom
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.frames import Frame, FrameType, control
from tocsin.wire.reader import FrameReader
from tocsin.wire.resume_proof import resume_proof
from tocsin.wire.scram import Credentials, ScramClient, make_credentials


def refusal(client: ScriptedClient) -> TocsinError:
    fields = client.take(FrameType.FAILURE)[-1].fields()
    assert not client.open
    return from_code(fields["code"], fields["text"])


def guarded() -> Driver:
    users: dict[str, Credentials] = {"anna": make_credentials("anna", "secret", salt=b"salt" * 4, iterations=100_000)}
    return Driver(Setup(find_user=users.get))


def log_in(driver: Driver, user: str, password: str, ticket: dict[str, bytes] | None = None) -> ScriptedClient:
    """With a ticket, its token is proved together with the password."""
    client = driver.dial()
    scram = ScramClient(user, password, nonce="client-nonce-0123456789")
    client.send(control(FrameType.HELLO, 0, {"version": 1, "user": user, "sasl": scram.start()}))
    challenges = client.take(FrameType.CHALLENGE)
    if challenges:
        fields: dict[str, object] = {"sasl": (answer := scram.answer(challenges[0].fields()["sasl"]))}
        if ticket is not None:
            fields["resume"] = {
                "connection": ticket["connection"], "proof": resume_proof(ticket["token"], answer)
            }  # fmt: skip
        client.send(control(FrameType.RESPONSE, 0, fields))
    return client


def test_without_users_everybody_may_enter() -> None:
    client = Driver().connect()
    assert client.welcome["login"] is False
    assert len(client.identity) == 16


def test_the_right_password_opens_the_door() -> None:
    client = log_in(guarded(), "anna", "secret")
    welcome = client.take(FrameType.WELCOME)[0].fields()
    assert welcome["login"] is True
    assert isinstance(welcome["sasl"], bytes)


@pytest.mark.parametrize(("user", "password"), [("anna", "wrong"), ("nobody", "secret")])
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(user: str, password: str) -> None:
    client = log_in(guarded(), user, password)
    assert isinstance(refusal(client), AuthenticationFailed)


def test_a_server_with_users_wants_a_login() -> None:
    client = guarded().dial()
    client.send(control(FrameType.HELLO, 0, {"version": 1}))
    assert isinstance(refusal(client), AuthenticationFailed)


@pytest.mark.parametrize("then", ["removed", "another password"])
def test_a_login_that_began_with_keys_of_before_does_not_outlive_them(then: str) -> None:
    users = {"anna": make_credentials("anna", "secret", salt=b"salt" * 4)}
    driver = Driver(Setup(find_user=users.get))
    client = driver.dial()
    scram = ScramClient("anna", "secret", nonce="client-nonce-0123456789")
    client.send(control(FrameType.HELLO, 0, {"version": 1, "sasl": scram.start()}))
    answer = scram.answer(client.take(FrameType.CHALLENGE)[0].fields()["sasl"])
    del users["anna"]
    if then != "removed":
        users["anna"] = make_credentials("anna", then, salt=b"salt" * 4)
    driver.broker.clients.review()
    client.send(control(FrameType.RESPONSE, 0, {"sasl": answer}))
    assert isinstance(refusal(client), AuthenticationFailed)


def test_nothing_else_is_understood_before_the_login() -> None:
    client = Driver().dial()
    client.send(control(FrameType.REQUEST, 0, {"id": 1, "op": "destination.list"}))
    assert isinstance(refusal(client), ProtocolError)


def test_a_stranger_makes_nobody_allocate() -> None:
    client = Driver().dial()
    client.send((FRAME_BYTES_BEFORE_LOGIN + 1).to_bytes(4, "little") + bytes([FrameType.HELLO, 1, 0, 0, 0, 0, 0, 0]))
    assert isinstance(refusal(client), ProtocolError)


def test_who_does_not_log_in_in_time_is_shown_out() -> None:
    driver = Driver(Setup(clients=Settings(login=3.0)))
    client = driver.dial()
    driver.advance(2.5)
    assert client.open
    driver.advance(1)
    assert isinstance(refusal(client), AuthenticationFailed)


# ---- client ids


def test_a_client_id_belongs_to_one_connection_at_a_time() -> None:
    driver = Driver()
    first = driver.connect("me")
    with pytest.raises(InvalidClientId):
        driver.connect("me")
    first.goodbye()
    driver.connect("me")


def test_a_client_id_is_kept_for_who_is_away_until_another_wants_it() -> None:
    driver = Driver()
    first = driver.connect("me")
    session = first.session()
    session.producer("queue:orders").send("one")
    session.consumer("queue:orders")
    driver.hang_up(first)
    second = driver.connect("me")
    (message,) = second.session().consumer("queue:orders").take()
    assert message.redelivered, "what the first one held has been given back"


@pytest.mark.parametrize("bad", ["", "x" * 256, 7])
def test_a_malformed_client_id_is_refused(bad: object) -> None:
    client = Driver().dial()
    client.send(control(FrameType.HELLO, 0, {"version": 1, "client_id": bad}))
    assert isinstance(refusal(client), InvalidClientId)


def test_a_client_id_can_be_set_once_before_the_connection_is_used() -> None:
    driver = Driver()
    client = driver.connect()
    client.request("client_id.set", client_id="me")
    with pytest.raises(TocsinError):
        client.request("client_id.set", client_id="you")
    other = driver.connect()
    other.session()
    with pytest.raises(TocsinError):
        other.request("client_id.set", client_id="you")


# ---- resume


def test_a_client_that_comes_back_in_time_is_resumed() -> None:
    driver = Driver()
    client = driver.connect("me")
    session = client.session()
    driver.hang_up(client)
    again = driver.connect(resume=client)
    assert again.welcome["resumed"] is True
    assert again.identity == client.identity
    resumed = again.session(1, session)
    assert (resumed.producer_id, resumed.epoch, resumed.resumed) == (session.producer_id, session.epoch + 1, True)


def test_a_client_that_comes_too_late_keeps_its_ids_and_nothing_else() -> None:
    driver = Driver()
    client = driver.connect()
    session = client.session()
    driver.hang_up(client)
    driver.advance(10)
    again = driver.connect(resume=client)
    assert (again.welcome["resumed"], again.identity) == (False, client.identity)
    reopened = again.session(1, session)
    assert (reopened.producer_id, reopened.epoch, reopened.resumed) == (session.producer_id, 1, False)


def test_a_client_may_be_back_before_the_server_noticed_that_it_was_gone() -> None:
    driver = Driver()
    client = driver.connect("me")
    session = client.session()
    consumer = session.consumer("queue:orders", messages=1)
    session.producer("queue:orders").send("one", "two")
    again = driver.connect(resume=client)
    assert not client.open, "the old connection is closed"
    resumed = again.session(1, session).consumer("queue:orders", former=consumer)
    assert resumed.bodies() == ["two"]


@pytest.mark.parametrize("away", [False, True])
def test_a_resume_that_is_refused_takes_nothing_from_who_it_was_for(away: bool) -> None:
    driver = Driver()
    client = driver.connect()
    driver.connect().session().producer("queue:q").send("one")
    client.session().consumer("queue:q")
    assert len(client.take(FrameType.DELIVER)) == 1
    if away:
        driver.hang_up(client)
    for bad in ("x" * 300, ""):
        with pytest.raises(InvalidClientId):
            driver.connect(bad, resume=client)
    if not away:
        assert client.request("destination.list")
        driver.hang_up(client)
    driver.advance(Settings().grace + 2.0)
    other = driver.connect()
    other.session().consumer("queue:q")
    assert len(other.take(FrameType.DELIVER)) == 1, "what it held is free when the grace is over"
    assert len(driver.broker.clients.connections()) == 2, "who sent, and who consumes now"


def test_a_forged_ticket_resumes_nothing() -> None:
    driver = Driver()
    client = driver.connect()
    client.session()
    driver.hang_up(client)
    client.welcome["token"] = b"x" * 32
    stranger = driver.connect(resume=client)
    assert stranger.welcome["resumed"] is False
    assert stranger.identity != client.identity


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("user", "same"), [("anna", True), ("bert", False)])
def test_a_ticket_is_good_for_the_user_who_got_it(restarted: bool, user: str, same: bool) -> None:
    """Also at a server that knows nothing of the connection any more."""
    users = {name: make_credentials(name, "secret", salt=b"salt" * 4, iterations=100_000) for name in ("anna", "bert")}
    driver = Driver(Setup(find_user=users.get))
    anna = log_in(driver, "anna", "secret")
    welcome = anna.take(FrameType.WELCOME)[0].fields()
    driver.hang_up(anna)
    if restarted:
        driver = driver.kill()
    ticket = {"connection": welcome["connection"], "token": welcome["token"]}
    again = log_in(driver, user, "secret", ticket).take(FrameType.WELCOME)[0].fields()
    assert (again["connection"] == welcome["connection"]) is same
    assert again["resumed"] is False


def test_nobody_resumes_the_sessions_of_another_user() -> None:
    users = {name: make_credentials(name, "secret", salt=b"salt" * 4, iterations=100_000) for name in ("anna", "bert")}
    driver = Driver(Setup(find_user=users.get))
    anna = log_in(driver, "anna", "secret")
    welcome = anna.take(FrameType.WELCOME)[0].fields()
    anna.identity = welcome["connection"]
    anna.session()
    driver.hang_up(anna)
    ticket = {"connection": welcome["connection"], "token": welcome["token"]}
    resumed = {}
    for user in ("bert", "anna"):
        again = log_in(driver, user, "secret", ticket)
        resumed[user] = again.take(FrameType.WELCOME)[0].fields()["resumed"]
    assert resumed == {"bert": False, "anna": True}


def test_a_token_that_is_shown_instead_of_proved_opens_nothing_where_there_are_users() -> None:
    """It would be shown before the server has proved itself; so no client does, and whoever found one gains nothing."""
    driver = guarded()
    anna = log_in(driver, "anna", "secret")
    welcome = anna.take(FrameType.WELCOME)[0].fields()
    anna.identity = welcome["connection"]
    anna.session()
    driver.hang_up(anna)
    shown = {"connection": welcome["connection"], "token": welcome["token"]}
    client = driver.dial()
    scram = ScramClient("anna", "secret", nonce="client-nonce-0123456789")
    client.send(control(FrameType.HELLO, 0, {"version": 1, "sasl": scram.start(), "resume": shown}))
    answer = scram.answer(client.take(FrameType.CHALLENGE)[0].fields()["sasl"])
    client.send(control(FrameType.RESPONSE, 0, {"sasl": answer, "resume": shown}))
    again = client.take(FrameType.WELCOME)[0].fields()
    assert (again["resumed"], again["connection"] == welcome["connection"]) == (False, False)


def test_the_proof_of_another_login_opens_nothing() -> None:
    driver = guarded()
    anna = log_in(driver, "anna", "secret")
    welcome = anna.take(FrameType.WELCOME)[0].fields()
    driver.hang_up(anna)
    client = driver.dial()
    scram = ScramClient("anna", "secret", nonce="client-nonce-0123456789")
    client.send(control(FrameType.HELLO, 0, {"version": 1, "sasl": scram.start()}))
    answer = scram.answer(client.take(FrameType.CHALLENGE)[0].fields()["sasl"])
    recorded = {"connection": welcome["connection"], "proof": resume_proof(welcome["token"], b"another" + answer)}
    client.send(control(FrameType.RESPONSE, 0, {"sasl": answer, "resume": recorded}))
    assert client.take(FrameType.WELCOME)[0].fields()["connection"] != welcome["connection"]


@pytest.mark.parametrize(
    ("over_tls", "binding", "refused"),
    [
        (True, b"of the server", None),
        (True, b"of somebody between", "somebody stands between"),
        (True, None, "SCRAM-SHA-256-PLUS"),
        (False, b"of the server", "does not end at this server"),
    ],
)
def test_over_tls_a_login_is_bound_to_the_certificate(
    over_tls: bool, binding: bytes | None, refused: str | None
) -> None:
    users: dict[str, Credentials] = {"anna": make_credentials("anna", "secret", salt=b"salt" * 4)}
    login = Login(b"s" * 32, SeededRandom(1).bytes, users.get, lambda: [b"of the server"])
    clients = ClientManager(Settings(), login, Identities(1, 1, 1))
    clients.connected(1, "test", 0.0, over_tls=over_tls)
    scram = ScramClient("anna", "secret", nonce="client-nonce-0123456789", binding=binding)
    clients.received(1, control(FrameType.HELLO, 0, {"version": 1, "sasl": scram.start()}), 0.0)
    answer = said(clients)
    if answer.type is FrameType.CHALLENGE:
        response = control(FrameType.RESPONSE, 0, {"sasl": scram.answer(answer.fields()["sasl"])})
        clients.received(1, response, 0.0)
        answer = said(clients)
    if refused is None:
        assert answer.type is FrameType.WELCOME
        scram.finish(answer.fields()["sasl"])
    else:
        assert answer.type is FrameType.FAILURE
        assert refused in answer.fields()["text"]


def said(clients: ClientManager) -> Frame:
    ((_, parts),) = clients.take_out()
    (frame,) = FrameReader(FRAME_BYTES_BEFORE_LOGIN).feed(b"".join(parts))
    return frame


def test_a_session_under_another_number_begins_anew() -> None:
    """An id that is not the connection's own gives no right to it: the session gets one of its own."""
    driver = Driver()
    client = driver.connect()
    session = client.session(1)
    driver.hang_up(client)
    again = driver.connect(resume=client)
    other = again.session(2, session)
    assert (other.producer_id != session.producer_id, other.resumed, other.epoch) == (True, False, 0)
