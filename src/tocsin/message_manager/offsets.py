"""Questions about the offsets of a destination: which there are, since when, and where a range may be cut."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from tocsin.message_manager.destination import DestinationState
from tocsin.model.errors import ProtocolError
from tocsin.model.limits import CUTS_MAX


def offset_range(state: DestinationState) -> dict[str, Any]:
    first, end = state.log.first_offset, state.visible_end
    return {
        "first": first, "end": end, "identity": state.identity, "retained": state.options.retained,
        "earliest": first, "latest": end,
    }  # fmt: skip


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
