"""The way to the dead message queue and back: one MOVE record takes messages out of a view and stores them elsewhere.

A dead message says where it came from, why, and how often it was tried: `model/dead_notes.py` has the names.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.message_manager.damage import RowDamaged
from tocsin.message_manager.destination import DestinationState, Removal
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.dispatch import fetch
from tocsin.message_manager.filtering import BlockColumns
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.records import RangesRecord, RecordKind, write_move
from tocsin.message_manager.settlement import give_back
from tocsin.message_manager.storing import append_time, check_heard, store_moved
from tocsin.message_manager.view import Returned
from tocsin.model.batch import Block
from tocsin.model.dead_notes import ATTEMPTS, NOTES, ORIGIN, REASON, SUBSCRIPTION
from tocsin.model.destination import Destination, parse_destination
from tocsin.model.editing import readdress
from tocsin.model.errors import InvalidDestination, TocsinError
from tocsin.model.limits import REMOVALS_PER_TURN
from tocsin.model.ranges import Range
from tocsin.model.values import Int

_ROWS_PER_MOVE = 8
"""Moving a message costs as much as looking at so many rows."""

FindDestination = Callable[[Destination], DestinationState]


def origin_of(directory: Directory, ledger: Ledger, found: set[int], address: Destination) -> DestinationState:
    """Where a dead message came from; noted in `found`."""
    # What the directory of names took away is not brought back by a dead message that came from there.
    gone = address.name in directory.deleted
    target = directory.find(address) if gone else directory.find_or_create(address, ledger)
    found.add(target.id)
    return target


def process_removals(state: DestinationState, dead: DestinationState, find: FindDestination, ledger: Ledger) -> int:
    """Moves what waits in `removals`; stops at a block that is not at hand, when the journal has no room, and when that
    is enough for one turn.

    Returns how many parts of rows have moved. A full disk needs its last room for acknowledgements: what is dead waits.
    """
    moved = 0
    while state.removals:
        removal = state.removals[0]
        for row, part in state.rows_in(removal.start, removal.end):
            try:
                block = fetch(state, row, ledger)
            except RowDamaged:
                # It cannot be moved: it waits with what else is damaged.
                removal.view.unreadable.append(Returned(_order(state, row), *part, removal.attempts))
                removal.start = part[1]
                continue
            if block is None or moved >= REMOVALS_PER_TURN or not ledger.has_room or ledger.journal.full:
                return moved
            _move(state, removal, row, part, block, dead, find, ledger)
            removal.start = part[1]
            moved += 1
            ledger.work.pay(_ROWS_PER_MOVE)
        removal.view.set_aside.remove(removal.start, removal.end)
        state.removals.popleft()
    return moved


def _order(state: DestinationState, row: int) -> int:
    return -state.log.priorities[row - state.log.base]


def _move(
    state: DestinationState, removal: Removal, row: int, part: Range, block: Block, dead: DestinationState,
    find: FindDestination, ledger: Ledger,
) -> None:  # fmt: skip
    first = state.log.span(row)[0]
    start, end = part
    removal.view.set_aside.remove(start, end)
    if removal.resend:
        for low, high, origin in _origins(block, start - first, end - first):
            _send_back(state, removal, block, (low, high), first, origin, find, ledger)
        return
    notes: dict[str, object] = {
        ORIGIN: str(state.address), REASON: removal.reason[:1024], ATTEMPTS: Int(removal.attempts),
    }  # fmt: skip
    known = removal.view.subscription
    if known is not None and known.name is not None:
        notes[SUBSCRIPTION] = known.name
    state.counters.dead += end - start
    data = readdress(block, start - first, end - first, dead.address, add=notes, remove=NOTES)
    _write(state, removal, part, dead, data, ledger)


def _send_back(
    state: DestinationState, removal: Removal, block: Block, part: Range, first: int, origin: str | None,
    find: FindDestination, ledger: Ledger,
) -> None:  # fmt: skip
    """Back to where messages came from; they stay dead when that is gone, or nobody would hear them."""
    low, high = part
    try:
        if origin is None:
            raise InvalidDestination("A message in the dead message queue does not say where it came from.")
        target = find(parse_destination(origin))
        check_heard(target)
        data = readdress(block, low, high, target.address, add={}, remove=NOTES)
        _write(state, removal, (first + low, first + high), target, data, ledger)
    except TocsinError:
        give_back(state, removal.view, first + low, first + high, removal.attempts, 0.0, ledger)


def _write(
    state: DestinationState,
    removal: Removal,
    part: Range,
    target: DestinationState,
    data: bytes,
    ledger: Ledger,
) -> None:
    source = RangesRecord(state.id, removal.view.id, [part])
    time = append_time(target, ledger)
    lsn = ledger.append(RecordKind.MOVE, write_move(target.id, target.log.next_offset, time, source, data), live=True)
    state.lsn = lsn
    state.apply_finish(removal.view, part[0], part[1], ledger)
    store_moved(target, lsn, Block(data), time, ledger)


def _origins(block: Block, start: int, end: int) -> list[tuple[int, int, str | None]]:
    """Runs of messages with the same origin: (start, end, where they came from)."""
    column = BlockColumns(block).column(ORIGIN)
    runs: list[tuple[int, int, str | None]] = []
    for index in range(start, end):
        text = column[index] if isinstance(column, (list, tuple)) else None
        origin = text if isinstance(text, str) else None
        if runs and runs[-1][2] == origin:
            runs[-1] = (runs[-1][0], index + 1, origin)
        else:
            runs.append((index, index + 1, origin))
    return runs
