from __future__ import annotations

from tocsin.client_manager.accounts import Account, Accounts
from tocsin.client_manager.connection import ConnectionState, Phase
from tocsin.model.limits import FRAME_BYTES_BEFORE_LOGIN


def test_a_new_connection_knows_nothing_and_may_send_little() -> None:
    state = ConnectionState(7, "peer", 12.0, Account(Accounts(), 7))
    assert (state.number, state.peer, state.phase, state.identity) == (7, "peer", Phase.HELLO, b"")
    assert (state.opened, state.heard, state.spoke) == (12.0, 12.0, 12.0)
    assert state.reader.limit == FRAME_BYTES_BEFORE_LOGIN
