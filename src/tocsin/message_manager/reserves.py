"""At a start and before a clean stop: which messages may have been delivered (D3)."""

from __future__ import annotations

from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.storing import note_delivered


def begin_reserves(state: DestinationState, ledger: Ledger) -> None:
    """What is sent from now on has certainly not been delivered before."""
    for view in state.views.values():
        if view.suspect_below > state.log.next_offset:
            note_delivered(state, view, state.log.next_offset, ledger)


def end_reserves(state: DestinationState, ledger: Ledger) -> None:
    """Notes exactly what was delivered, so that nothing else is called redelivered."""
    for view in state.views.values():
        delivered = view.delivered_end()
        if view.durable and delivered < view.requested:
            note_delivered(state, view, delivered, ledger)
            view.requested = view.reserved = delivered
