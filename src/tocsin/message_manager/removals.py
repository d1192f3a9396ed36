"""The way to the dead message queue and back: one MOVE record takes messages out of a view and stores them elsewhere.

A dead message says where it came from, why, and how often it was tried: `model/dead_notes.py` has the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tocsin.cluster.commands import Unreadable
from tocsin.message_manager.damage import RowDamaged
from tocsin.message_manager.destination import DestinationState, Removal
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.dispatch import fetch
from tocsin.message_manager.filtering import BlockColumns
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.records import RangesRecord, RecordKind, move_block_bytes, write_move
from tocsin.message_manager.settlement import give_back
from tocsin.message_manager.storing import append_time, check_heard, store_moved
from tocsin.message_manager.view import Returned
from tocsin.model.batch import COLUMN_ALIGNMENT, Block
from tocsin.model.dead_notes import ATTEMPTS, NOTES, ORIGIN, REASON, SUBSCRIPTION, shortened
from tocsin.model.destination import Destination, parse_destination
from tocsin.model.editing import readdress
from tocsin.model.errors import InvalidDestination, MessageTooLarge, TocsinError
from tocsin.model.limits import BLOCK_BYTES_MAX, REASON_BYTES_MAX, REMOVALS_PER_TURN
from tocsin.model.ranges import Range
from tocsin.model.values import Int

_ROWS_PER_MOVE = 8
"""Moving a message costs as much as looking at so many rows."""

FindDestination = Callable[[Destination, str | None], DestinationState]


def origin_of(
    directory: Directory, ledger: Ledger, found: set[int], address: Destination, user: str | None
) -> DestinationState:
    """Where a dead message came from; noted in `found`. What has to be made for it is the user's."""
    # What the directory of names took away is not brought back by a dead message that came from there.
    gone = address.name in directory.deleted
    target = directory.find(address) if gone else directory.find_or_create(address, ledger, user=user)
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
                _keep_aside(state, removal, part)
                continue
            if block is None or moved >= REMOVALS_PER_TURN:
                return moved
            whole = _move(state, removal, row, part, block, dead, find, ledger)
            moved += 1
            ledger.work.pay(_ROWS_PER_MOVE)
            if not whole:
                return moved
        removal.view.set_aside.remove(removal.start, removal.end)
        state.removals.popleft()
    return moved


def _move(
    state: DestinationState, removal: Removal, row: int, part: Range, block: Block, dead: DestinationState,
    find: FindDestination, ledger: Ledger,
) -> bool:  # fmt: skip
    """Moves messages of one row, a record for each piece that fits one; False when there is no room for the next.

    What can't be moved stays, and holds up nothing behind it.
    """
    first = state.log.span(row)[0]
    low, high = part[0] - first, part[1] - first
    runs = _origins(block, low, high) if removal.resend else [(low, high, None)]
    for start, end, origin in runs:
        if not _has_room(ledger):
            return False
        try:
            target = _origin(origin, removal.user, find) if removal.resend else dead
        except TocsinError as error:
            _stay(state, removal, (first + start, first + end), error, ledger)
            continue
        for piece, data in _pieces(block, (start, end), target, _notes(state, removal), _block_limit(ledger)):
            moving = first + piece[0], first + piece[1]
            time = append_time(target, ledger)
            try:
                lsn = _write(state, removal, moving, target, data, time, ledger)
            except TocsinError as error:
                _stay(state, removal, moving, error, ledger)
                continue
            _apply(state, removal, moving, lsn, ledger)
            store_moved(target, lsn, Block(data), time, ledger)
            if not _has_room(ledger):
                return False
    return True


def _has_room(ledger: Ledger) -> bool:
    return ledger.has_room and not ledger.journal.full


def _origin(origin: str | None, user: str | None, find: FindDestination) -> DestinationState:
    """Where dead messages go back to; raises when that is gone, or nobody would hear them."""
    if origin is None:
        raise InvalidDestination("A message in the dead message queue does not say where it came from.")
    target = find(parse_destination(origin), user)
    check_heard(target)
    return target


def _notes(state: DestinationState, removal: Removal) -> dict[str, object]:
    if removal.resend:
        return {}
    reason = shortened(removal.reason, REASON_BYTES_MAX)
    notes: dict[str, object] = {ORIGIN: str(state.address), REASON: reason, ATTEMPTS: Int(removal.attempts)}
    known = removal.view.subscription
    if known is not None and known.name is not None:
        notes[SUBSCRIPTION] = known.name
    return notes


def _block_limit(ledger: Ledger) -> int:
    """The largest block that a MOVE record takes and that can be delivered afterwards."""
    return min(move_block_bytes(ledger.journal.record_limit), BLOCK_BYTES_MAX)


def _pieces(
    block: Block, part: Range, target: DestinationState, notes: dict[str, object], limit: int
) -> Iterator[tuple[Range, bytes]]:
    """Messages of a block as blocks for the target, each within the limit; only a single message may still be over it.

    The notes are there once for each message, so they may be as large as the block they come to.
    """
    start, end = part
    data = readdress(block, start, end, target.address, add=notes, remove=NOTES)
    over = len(data) - limit
    if over > 0 and end - start > 1:
        del data
        middle = (start + end) // 2
        yield from _pieces(block, (start, middle), target, notes, limit)
        yield from _pieces(block, (middle, end), target, notes, limit)
        return
    if over > 0 and REASON in notes:
        # Where it came from matters more than all the words that say why; what is left out fills whole columns.
        words = str(notes[REASON])
        notes = notes | {REASON: shortened(words, len(words.encode()) - over - COLUMN_ALIGNMENT)}
        data = readdress(block, start, end, target.address, add=notes, remove=NOTES)
    yield part, data


def _write(
    state: DestinationState, removal: Removal, part: Range, target: DestinationState, data: bytes, time: int,
    ledger: Ledger,
) -> int:  # fmt: skip
    """Writes a MOVE record, if there can be one; returns its LSN."""
    limit = _block_limit(ledger)
    if len(data) > limit:
        raise MessageTooLarge(
            f"Message {part[0]} of {state.address} can't be moved to {target.address}: with what is noted on it, it "
            f"would have {len(data)} bytes, and {limit} is the most. It is kept and given to nobody; purge "
            f"{state.address} when it is not needed."
        )
    source = RangesRecord(state.id, removal.view.id, [part])
    return ledger.append(RecordKind.MOVE, write_move(target.id, target.log.next_offset, time, source, data), live=True)


def _apply(state: DestinationState, removal: Removal, part: Range, lsn: int, ledger: Ledger) -> None:
    """The giving half of a MOVE record that has just been written."""
    start, end = part
    state.lsn = lsn
    removal.start = end
    removal.view.set_aside.remove(start, end)
    if not removal.resend:
        state.counters.dead += end - start
    state.apply_finish(removal.view, start, end, ledger)


def _stay(state: DestinationState, removal: Removal, part: Range, error: TocsinError, ledger: Ledger) -> None:
    """Messages can't be moved. What was to be sent back stays dead; what was to be buried is given to nobody, and
    whoever might wait for it is told.
    """
    start, end = part
    if removal.resend:
        removal.start = end
        removal.view.set_aside.remove(start, end)
        give_back(state, removal.view, start, end, removal.attempts, 0.0, ledger)
        return
    _keep_aside(state, removal, part)
    for consumer in removal.view.consumers:
        ledger.reply(consumer.origin, Unreadable(consumer.key, error))


def _keep_aside(state: DestinationState, removal: Removal, part: Range) -> None:
    order = -state.log.priorities[state.log.row_at(part[0]) - state.log.base]
    removal.view.unreadable.append(Returned(order, *part, removal.attempts))
    removal.start = part[1]


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
