"""Retention holds are set, moved and released on request, and end by themselves; each time with a record."""

from __future__ import annotations

from typing import Any

from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.holds import Hold, hold_record
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.records import RecordKind
from tocsin.model.errors import InvalidDestination, ProtocolError, ResourceExhausted
from tocsin.model.limits import HOLD_NAME_BYTES_MAX, HOLD_SECONDS_MAX, HOLDS_PER_DESTINATION_MAX


def set_hold(state: DestinationState, name: str, offset: int, seconds: int, ledger: Ledger) -> int:
    """Keeps everything from an offset on, until it is set again, released, or so many seconds have passed."""
    if not state.options.retained:
        raise InvalidDestination(f"{state.address} is not retained, so there is no retention to hold back.")
    if not 0 < len(name.encode("utf-8", "replace")) <= HOLD_NAME_BYTES_MAX:
        raise ProtocolError(f"The name of a hold has 1 to {HOLD_NAME_BYTES_MAX} bytes.")
    if not 0 < seconds <= HOLD_SECONDS_MAX:
        raise ProtocolError(f"A hold lasts from 1 to {HOLD_SECONDS_MAX:.0f} seconds; set it again before it ends.")
    known = state.holds.rows
    if name not in known and len(known) >= HOLDS_PER_DESTINATION_MAX:
        raise ResourceExhausted(
            f"{state.address} has {HOLDS_PER_DESTINATION_MAX} holds, which is the most; release some first."
        )
    return _write(state, name, Hold(offset, ledger.now_ms + 1000 * seconds), ledger)


def release_hold(state: DestinationState, name: str, ledger: Ledger) -> int:
    """To release what is not there is done already; the answer still waits for what was written before."""
    return _write(state, name, None, ledger) if name in state.holds.rows else ledger.last_lsn()


def end_overdue_holds(state: DestinationState, ledger: Ledger) -> None:
    for name in state.holds.overdue(ledger.now_ms):
        _write(state, name, None, ledger)


def describe_holds(state: DestinationState) -> list[dict[str, Any]]:
    """For people: who holds what, how far behind the end it is, and until when."""
    end = state.visible_end
    return [
        {"name": name, "offset": hold.offset, "lag": max(0, end - hold.offset), "expires": hold.end_ms}
        for name, hold in state.holds.rows.items()
    ]


def _write(state: DestinationState, name: str, hold: Hold | None, ledger: Ledger) -> int:
    fields, parts = hold_record(state.id, name, hold)
    state.lsn = ledger.append(RecordKind.HOLD, parts)
    state.holds.apply(fields)
    return state.lsn
