from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.errors import AuthenticationFailed, ProtocolError
from tocsin.model.limits import PASSWORD_ITERATIONS_MIN, USER_NAME_BYTES_MAX
from tocsin.wire import scram, scram_message
from tocsin.wire.scram import (
    Credentials,
    ScramClient,
    ScramServer,
    decoy_credentials,
    make_credentials,
    prepare_password,
    prepare_user,
)

ITERATIONS = PASSWORD_ITERATIONS_MIN
SECRET = b"a secret of the server"
CLIENT_NONCE = "client-nonce-0123456789"
SERVER_NONCE = "server-nonce-0123456789"
ANNA = make_credentials("anna", "a good password", salt=b"salt of anna", iterations=ITERATIONS)

# The example of RFC 7677 section 3.
RFC_CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
RFC_CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
RFC_SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def server(
    user: Credentials | None = ANNA, nonce: str = SERVER_NONCE, bindings: list[bytes] | None = None
) -> ScramServer:
    users = {} if user is None else {user.user: user}
    return ScramServer(users.get, nonce=nonce, secret=SECRET, bindings=bindings)


def anna(binding: bytes | None = None) -> ScramClient:
    return ScramClient("anna", "a good password", nonce=CLIENT_NONCE, binding=binding)


@pytest.fixture
def few_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few as the example of the RFC has."""
    monkeypatch.setattr(scram, "PASSWORD_ITERATIONS_MIN", 4_096)
    monkeypatch.setattr(scram_message, "PASSWORD_ITERATIONS_MIN", 4_096)


def log_in(client: ScramClient, machine: ScramServer) -> None:
    client.finish(machine.finish(client.answer(machine.challenge(client.start()))))


@pytest.mark.usefixtures("few_iterations")
def test_client_speaks_the_example_of_the_rfc() -> None:
    client = ScramClient("user", "pencil", nonce=RFC_CLIENT_NONCE)
    assert client.start() == RFC_CLIENT_FIRST
    assert client.answer(RFC_SERVER_FIRST) == RFC_CLIENT_FINAL
    client.finish(RFC_SERVER_FINAL)


@pytest.mark.usefixtures("few_iterations")
def test_server_speaks_the_example_of_the_rfc() -> None:
    user = make_credentials("user", "pencil", salt=RFC_SALT, iterations=4_096)
    machine = server(user, nonce=RFC_SERVER_NONCE)
    assert machine.challenge(RFC_CLIENT_FIRST) == RFC_SERVER_FIRST
    assert machine.user is None
    assert machine.finish(RFC_CLIENT_FINAL) == RFC_SERVER_FINAL
    assert machine.user == "user"


def test_wrong_password_is_refused_and_names_no_user() -> None:
    machine = server()
    with pytest.raises(AuthenticationFailed, match=r"^The user name or the password is wrong\.$"):
        log_in(ScramClient("anna", "a bad password", nonce=CLIENT_NONCE), machine)
    assert machine.user is None


def test_unknown_user_gets_the_same_words_as_a_wrong_password() -> None:
    refusals = []
    for user in ("anna", "nobody"):
        with pytest.raises(AuthenticationFailed) as refusal:
            log_in(ScramClient(user, "a bad password", nonce=CLIENT_NONCE), server())
        refusals.append(str(refusal.value))
    assert refusals[0] == refusals[1]


def test_unknown_user_gets_the_same_salt_each_time_and_others_get_another() -> None:
    def salt_of(user: str) -> bytes:
        challenge = server(None).challenge(ScramClient(user, "x", nonce=CLIENT_NONCE).start())
        return challenge.split(b",")[1]

    assert salt_of("nobody") == salt_of("nobody")
    assert salt_of("nobody") != salt_of("no one else")


def test_decoy_depends_on_the_secret() -> None:
    assert decoy_credentials("nobody", SECRET) != decoy_credentials("nobody", SECRET + b"!")


def test_client_notices_a_server_that_does_not_know_the_user() -> None:
    impostor = server(
        Credentials("anna", ANNA.salt, ANNA.iterations, ANNA.stored_key, bytes(32)),
    )
    with pytest.raises(AuthenticationFailed, match="impostor"):
        log_in(anna(), impostor)


@pytest.mark.usefixtures("few_iterations")
def test_refusal_by_a_foreign_server_is_an_authentication_failure() -> None:
    client = ScramClient("user", "pencil", nonce=RFC_CLIENT_NONCE)
    client.start()
    client.answer(RFC_SERVER_FIRST)
    with pytest.raises(AuthenticationFailed, match="refused"):
        client.finish(b"e=invalid-proof")


@pytest.mark.parametrize("iterations", ["1", "4096", "99999", "2000001", "99999999999999999", "-5000", "x", ""])
def test_client_accepts_neither_weak_nor_endless_salting(iterations: str) -> None:
    client = ScramClient("user", "pencil", nonce=RFC_CLIENT_NONCE)
    client.start()
    with pytest.raises(ProtocolError):
        client.answer(RFC_SERVER_FIRST.replace(b"i=4096", f"i={iterations}".encode()))


def test_client_accepts_the_fewest_iterations_that_anybody_makes() -> None:
    client = ScramClient("user", "pencil", nonce=RFC_CLIENT_NONCE)
    client.start()
    assert client.answer(RFC_SERVER_FIRST.replace(b"i=4096", b"i=100000")).startswith(b"c=biws,")


@pytest.mark.parametrize(
    "answer",
    [
        RFC_SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"),
        RFC_SERVER_FIRST.replace(RFC_SERVER_NONCE.encode(), b""),
        RFC_SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s=W22"),
        RFC_SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="),
        b"m=must," + RFC_SERVER_FIRST,
        RFC_SERVER_FIRST + b",x=more",
        b"\xff",
        b"",
    ],
)
def test_client_refuses_a_malformed_challenge(answer: bytes) -> None:
    client = ScramClient("user", "pencil", nonce=RFC_CLIENT_NONCE)
    client.start()
    with pytest.raises(ProtocolError):
        client.answer(answer)


@pytest.mark.parametrize(
    "first",
    [
        b"y,,n=anna,r=0123456789abcdef",
        b"n,a=root,n=anna,r=0123456789abcdef",
        b"n,,n=anna",
        b"n,,n=anna,r=",
        b"n,,n=anna,r=with space",
        b"n,,n=an=na,r=0123456789abcdef",
        b"n,,n=anna,r=" + b"x" * 129,
        b"n,,n=anna,r=0123456789abcdef" + b"," * 4_096,
        b"\xff\xfe",
    ],
)
def test_server_refuses_a_malformed_first_message(first: bytes) -> None:
    with pytest.raises(ProtocolError):
        server().challenge(first)


def test_server_refuses_another_logins_nonce_and_another_binding() -> None:
    for old, new in ((b"r=client", b"r=clienT"), (b"c=biws", b"c=eSws")):
        machine = server()
        client = anna()
        final = client.answer(machine.challenge(client.start()))
        with pytest.raises(ProtocolError):
            machine.finish(final.replace(old, new))


def test_a_login_over_tls_is_bound_to_the_servers_certificate() -> None:
    assert anna(b"of the one before").start().startswith(b"p=tls-server-end-point,,n=anna,")
    machine = server(bindings=[b"of the new certificate", b"of the one before"])
    log_in(anna(b"of the one before"), machine)
    assert machine.user == "anna"


def test_a_login_that_is_passed_on_to_another_tls_connection_is_refused() -> None:
    """Somebody between shows the client a certificate of their own, and the server sees theirs as the client's."""
    machine = server(bindings=[b"of the server"])
    with pytest.raises(AuthenticationFailed, match="somebody stands between"):
        log_in(anna(b"of somebody between"), machine)
    assert machine.user is None


def test_a_proof_is_bound_even_if_somebody_puts_the_right_binding_beside_it() -> None:
    machine, bound = server(bindings=[b"right"]), base64.b64encode(b"p=tls-server-end-point,,right")
    client = anna(b"wrong")
    final = client.answer(machine.challenge(client.start()))
    changed = b"c=" + bound + final[final.index(b",") :]
    with pytest.raises(AuthenticationFailed, match="password is wrong"):
        machine.finish(changed)


@pytest.mark.parametrize("header", [b"n,,", b"y,,"])
def test_nobody_can_talk_a_client_out_of_the_binding(header: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="SCRAM-SHA-256-PLUS"):
        server(bindings=[b"of the server"]).challenge(header + b"n=anna,r=0123456789abcdef")


def test_a_header_that_was_changed_on_the_way_does_not_match_what_is_signed() -> None:
    """TLS ends at somebody between, who speaks in clear with the server and takes the binding away."""
    client, machine = anna(b"of somebody between"), server()
    client.start()
    challenge = machine.challenge(b"n,,n=anna,r=" + CLIENT_NONCE.encode())
    with pytest.raises(ProtocolError, match="channel binding"):
        machine.finish(client.answer(challenge))


@pytest.mark.parametrize("name", [b"tls-server-end-point", b"tls-unique", b"tls-exporter"])
def test_a_client_whose_tls_ends_before_the_server_is_refused(name: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="does not end at this server"):
        server().challenge(b"p=" + name + b",,n=anna,r=0123456789abcdef")


def test_another_kind_of_binding_is_refused() -> None:
    with pytest.raises(ProtocolError, match="must begin with 'p=tls-server-end-point,,'"):
        server(bindings=[b"x"]).challenge(b"p=tls-unique,,n=anna,r=0123456789abcdef")


def test_steps_come_once_and_in_order() -> None:
    client = anna()
    with pytest.raises(ProtocolError, match="out of turn"):
        client.finish(b"v=")
    machine = server()
    with pytest.raises(ProtocolError, match="out of turn"):
        machine.finish(b"c=biws,r=x,p=x")
    final = client.answer(machine.challenge(client.start()))
    machine.finish(final)
    with pytest.raises(ProtocolError, match="out of turn"):
        machine.finish(final)


def test_a_failed_proof_cannot_be_tried_again_in_the_same_login() -> None:
    machine = server()
    bad = ScramClient("anna", "a bad password", nonce=CLIENT_NONCE)
    challenge = machine.challenge(bad.start())
    with pytest.raises(AuthenticationFailed):
        machine.finish(bad.answer(challenge))
    good = anna()
    good.start()
    with pytest.raises(ProtocolError, match="out of turn"):
        machine.finish(good.answer(challenge))


@pytest.mark.parametrize("user", ["a=b,c", "=2C", ",,==", "Zoë", "anna smith"])
def test_every_name_survives_the_journey(user: str) -> None:
    credentials = make_credentials(user, "secret", salt=b"12345678", iterations=ITERATIONS)
    machine = server(credentials)
    log_in(ScramClient(user, "secret", nonce=CLIENT_NONCE), machine)
    assert machine.user == user


def test_spellings_that_look_the_same_are_the_same() -> None:
    composed, decomposed = "Zo\u00eb", "Zoe\u0308"
    credentials = make_credentials(composed, "\u2168", salt=b"12345678", iterations=ITERATIONS)
    log_in(ScramClient(decomposed, "IX", nonce=CLIENT_NONCE), server(credentials))


def test_names_and_passwords_are_bounded() -> None:
    assert prepare_user("x" * USER_NAME_BYTES_MAX) == "x" * USER_NAME_BYTES_MAX
    for text in ("", "\u00ad", "x" * (USER_NAME_BYTES_MAX + 1), "ë" * USER_NAME_BYTES_MAX):
        with pytest.raises(AuthenticationFailed):
            prepare_user(text)
    with pytest.raises(AuthenticationFailed):
        prepare_password("x" * 1_025)


def test_mistakes_of_our_own_are_value_errors() -> None:
    with pytest.raises(ValueError, match="nonce"):
        ScramClient("anna", "x", nonce="short")
    with pytest.raises(ValueError, match="nonce"):
        server(nonce="with,comma-0123456789")
    with pytest.raises(ValueError, match="secret"):
        ScramServer(lambda user: None, nonce=SERVER_NONCE, secret=b"short")
    with pytest.raises(ValueError, match="salt"):
        make_credentials("anna", "x", salt=b"short", iterations=ITERATIONS)
    with pytest.raises(ValueError, match="Iterations"):
        make_credentials("anna", "x", salt=b"12345678", iterations=1)


@given(st.binary(max_size=300), st.sampled_from([b"", b"n,,", b"n,,n=", b"n,,n=anna,r="]))
def test_garbage_as_first_message_is_only_ever_refused(garbage: bytes, prefix: bytes) -> None:
    try:
        answer = server().challenge(prefix + garbage)
    except (ProtocolError, AuthenticationFailed):
        return
    assert answer.startswith(b"r=")


@given(st.binary(max_size=300), st.sampled_from([b"", b"c=biws,", b"c=biws,r=x,p="]))
def test_garbage_as_proof_is_only_ever_refused(garbage: bytes, prefix: bytes) -> None:
    machine = server()
    machine.challenge(ScramClient("anna", "x", nonce=CLIENT_NONCE).start())
    with pytest.raises((ProtocolError, AuthenticationFailed)):
        machine.finish(prefix + garbage)
