from __future__ import annotations

import pytest

from tocsin.client_manager.accounts import Account, Accounts
from tocsin.client_manager.connection import ConnectionState, Phase
from tocsin.client_manager.registry import Registry
from tocsin.client_manager.session import SessionState
from tocsin.model.errors import InvalidClientId


def connection(registry: Registry, number: int, phase: Phase = Phase.OPEN) -> ConnectionState:
    state = ConnectionState(number, "peer", 0.0, Account(Accounts(), number))
    state.identity = bytes([number]) * 16
    state.phase = phase
    registry.connections[number] = state
    registry.admit(state)
    return state


def test_a_session_is_found_on_its_connection() -> None:
    registry = Registry()
    state = connection(registry, 1)
    session = SessionState(5, b"s" * 16, 0, 1, Account(Accounts(), 1))
    registry.add_session(state, session)
    assert registry.sessions[b"s" * 16] is session
    assert registry.connection_of(session) is state
    session.connection = -1
    assert registry.connection_of(session) is None
    registry.remove_session(state, session)
    assert (registry.sessions, state.sessions) == ({}, {})


def test_a_client_id_has_one_holder_and_who_is_away_gives_way() -> None:
    registry = Registry()
    first, second = connection(registry, 1), connection(registry, 2)
    assert registry.claim_client_id(first, "me") is None
    assert registry.claim_client_id(first, "me") is None, "its own"
    with pytest.raises(InvalidClientId):
        registry.claim_client_id(second, "me")
    first.phase = Phase.AWAY
    assert registry.claim_client_id(second, "me") is first
    registry.forget(first)
    third = connection(registry, 3)
    with pytest.raises(InvalidClientId):
        registry.claim_client_id(third, "me")


def test_forgetting_a_connection_frees_its_client_id() -> None:
    registry = Registry()
    first = connection(registry, 1)
    registry.claim_client_id(first, "me")
    registry.forget(first)
    assert registry.claim_client_id(connection(registry, 2), "me") is None
