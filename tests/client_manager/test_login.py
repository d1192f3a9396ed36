from __future__ import annotations

import pytest

from tocsin.client_manager.login import SESSION_BITS, Identities, Login, session_id
from tocsin.model.errors import ProtocolError
from tocsin.wire.resume_proof import resume_proof


def login(secret: bytes = b"s" * 32) -> Login:
    return Login(secret, lambda count: bytes(count), None)


def test_connections_get_ids_that_never_repeat_and_leave_room_for_their_sessions() -> None:
    identities = Identities(1, 2, 3)
    first, second = identities.next_connection(), identities.next_connection()
    assert int.from_bytes(second, "big") - int.from_bytes(first, "big") == 1 << SESSION_BITS
    assert Identities(1, 2, 4).next_connection() > second, "the next boot comes after this one"


def test_sessions_lie_in_the_range_of_their_connection() -> None:
    connection = Identities(1, 2, 3).next_connection()
    assert session_id(connection, 1) != session_id(connection, 2)
    assert connection < session_id(connection, (1 << SESSION_BITS) - 1)
    for number in (0, 1 << SESSION_BITS, -1):
        with pytest.raises(ProtocolError):
            session_id(connection, number)


def test_a_token_proves_one_connection_at_one_node() -> None:
    here = login()
    connection = Identities(1, 2, 3).next_connection()
    token = here.token(connection, "anna")
    assert here.proves(connection, "anna", token)
    assert login().proves(connection, "anna", token), "also after a restart"
    assert not login(b"t" * 32).proves(connection, "anna", token)
    assert not here.proves(Identities(1, 2, 4).next_connection(), "anna", token)


def test_a_proof_of_a_token_is_as_good_as_the_token_for_its_login_alone() -> None:
    here = login()
    connection = Identities(1, 2, 3).next_connection()
    proof = resume_proof(here.token(connection, "anna"), b"the last message")
    assert here.proves(connection, "anna", proof, b"the last message")
    assert not here.proves(connection, "anna", proof, b"another message")
    assert not here.proves(connection, "anna", proof)
    assert not here.proves(connection, "bert", proof, b"the last message")
    assert not here.proves(connection, "anna", here.token(connection, "anna"), b"the last message")


PRINCIPALS = [None, "", "anna", "anna ", "bert", "\0"]


@pytest.mark.parametrize("owner", PRINCIPALS)
def test_a_token_proves_nothing_for_another_user(owner: str | None) -> None:
    here = login()
    connection = Identities(1, 2, 3).next_connection()
    token = here.token(connection, owner)
    assert [principal for principal in PRINCIPALS if here.proves(connection, principal, token)] == [owner]


@pytest.mark.parametrize("forged", [b"", b"x" * 32, None, 7, "text"])
def test_no_other_token_proves_anything(forged: object) -> None:
    connection = Identities(1, 2, 3).next_connection()
    assert not login().proves(connection, None, forged)


@pytest.mark.parametrize("identity", [b"", b"short", None, 5, b"x" * 17])
def test_no_other_identity_can_be_proved(identity: object) -> None:
    here = login()
    token = here.token(identity, None) if isinstance(identity, bytes) else b""
    assert not here.proves(identity, None, token)


def test_the_id_of_a_session_is_no_connection() -> None:
    here = login()
    inside = session_id(Identities(1, 2, 3).next_connection(), 5)
    assert not here.proves(inside, None, here.token(inside, None))
