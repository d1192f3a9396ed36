"""Questions about the offsets of a destination: which there are, since when, and where a range may be cut."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.ledger import StreamFiles
from tocsin.model.errors import DataLost, ProtocolError
from tocsin.model.limits import CUTS_MAX


def check_identity(state: DestinationState, wanted: object) -> None:
    """Offsets that somebody has of one destination mean other messages in any other, also of the same name."""
    if wanted is not None and wanted != state.identity:
        raise DataLost(
            f"{state.address} is not the one that these offsets are of: it was deleted and made again, or this server "
            "belongs to another cluster. Begin anew, and name servers of one cluster only in a URL."
        )


def offset_range(state: DestinationState) -> dict[str, Any]:
    first, end = state.log.first_offset, state.visible_end
    return {
        "first": first, "end": end, "identity": state.identity, "retained": state.options.retained,
        "earliest": first, "latest": end,
    }  # fmt: skip


def files_of(state: DestinationState, start: int, end: int, files: StreamFiles | None) -> dict[str, Any]:
    """The files in which a retained topic has a range, from its start as far as they go.

    None where a part is gone, since to tell that is up to whoever reads the range in the ordinary way.
    """
    end = min(end, state.stream_end, state.visible_end)
    if files is None or not state.options.retained or not state.log.first_offset <= start < end:
        return {"files": [], "more": False, "identity": state.identity}
    parts = files.parts(state.id, start, end)
    return {
        "journal": files.journal_id,
        "stream": state.id,
        "identity": state.identity,
        "files": [
            {
                "path": part.path,
                "first": part.first_offset,
                "end": part.end_offset,
                "position": part.position,
                "bytes": part.bytes,
            }
            for part in parts
        ],
        "more": bool(parts) and parts[-1].end_offset < end,
    }


def cut(state: DestinationState, start: int, end: int, parts: int) -> list[int]:
    """Offsets from start to end that cut the range into parts of about the same number of messages.

    All but the first and the last lie between two batches, so that no batch is read twice; where batches are large
    there are fewer parts than asked for.
    """
    if not 1 <= parts <= CUTS_MAX:
        raise ProtocolError(f"A range of offsets is cut into 1 to {CUTS_MAX} parts.")
    if start > end:
        raise ProtocolError(f"A range of offsets ends at {end}, before it begins at {start}.")
    firsts = state.log.firsts
    between = firsts[bisect_right(firsts, start) : bisect_left(firsts, end)]
    if len(between) < parts:
        return [start, *between, end]
    low, high = max(start, state.log.first_offset), min(end, state.log.next_offset)
    cuts = [start]
    for part in range(1, parts):
        target = low + (high - low) * part // parts
        place = bisect_right(firsts, target)
        near = [firsts[index] for index in (place - 1, place) if 0 <= index < len(firsts)]
        found = min(near, key=lambda offset: abs(offset - target), default=end)
        if cuts[-1] < found < end:
            cuts.append(found)
    return [*cuts, end]
