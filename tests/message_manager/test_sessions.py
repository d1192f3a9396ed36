"""Where connections and client ids are: who has not noticed yet that a client left takes nothing back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.cluster.commands import OpenProducer
from tocsin.message_manager.sessions import Sessions
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import IllegalState, InvalidClientId

CLIENT = b"connection no. 1"
OTHER = b"connection no. 2"
SESSION = b"a session, no. 1"


def keep(sessions: Sessions, origin: str, **fields: object) -> None:
    sessions.run(origin, "connection.keep", {"connections": [CLIENT], **fields})


def claim(sessions: Sessions, origin: str, **fields: object) -> None:
    sessions.run(origin, "client_id.claim", {"client_id": "me", "connection": CLIENT, **fields})


def release(sessions: Sessions, origin: str) -> None:
    sessions.run(origin, "client_id.release", {"client_id": "me", "connection": CLIENT})


def test_who_arrives_is_there_and_who_is_only_said_again_stays_where_it_is() -> None:
    sessions = Sessions()
    keep(sessions, "1/1/1")
    keep(sessions, "2/1/1", arrived=True)
    keep(sessions, "1/1/2")
    assert sessions.connections[CLIENT] == "2/1/1"
    assert not sessions.closes(CLIENT, "1/1/2"), "the end at the former client manager is no end"
    keep(sessions, "2/1/2")
    assert sessions.connections[CLIENT] == "2/1/2"
    assert sessions.closes(CLIENT, "2/1/2")


def test_what_a_client_manager_that_is_gone_had_may_be_said_by_another() -> None:
    sessions = Sessions()
    keep(sessions, "1/1/1")
    claim(sessions, "1/1/1")
    sessions.gone("1/1/", (), deadline=5.0)
    keep(sessions, "2/1/1")
    claim(sessions, "2/1/1", again=True)
    assert sessions.connections[CLIENT] == sessions.client_ids["me"].origin == "2/1/1"
    assert sessions.due(6.0, 10) is not None and "me" in sessions.client_ids


def test_a_claim_goes_with_its_connection_and_is_not_taken_back_later() -> None:
    sessions = Sessions()
    claim(sessions, "1/1/1")
    claim(sessions, "2/1/1")
    claim(sessions, "1/1/2", again=True)
    release(sessions, "1/1/2")
    assert "me" in sessions.client_ids
    with pytest.raises(InvalidClientId):
        sessions.run("1/1/2", "client_id.claim", {"client_id": "me", "connection": OTHER})
    release(sessions, "2/1/1")
    assert sessions.client_ids == {}


def test_what_a_session_said_before_it_moved_or_ended_comes_too_late() -> None:
    sessions = Sessions()
    command = OpenProducer(1, SESSION, 1, Destination(Kind.QUEUE, "orders"), CLIENT)
    with pytest.raises(IllegalState, match="over"):
        sessions.check_speaker("1/1/1", SESSION)
    sessions.arrived("1/1/1", command, 1)
    sessions.check_speaker("1/1/1", SESSION)
    sessions.check_speaker("1/1/2", SESSION)
    sessions.arrived("2/1/1", replace(command, epoch=1), 1)
    with pytest.raises(IllegalState, match="moved on"):
        sessions.check_speaker("1/1/1", SESSION)
    del sessions.known[SESSION]
    with pytest.raises(IllegalState, match="over"):
        sessions.check_speaker("1/1/1", SESSION)
