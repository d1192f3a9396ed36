"""What drains hold of a queue: a drain is a named, durable lock on messages, taken in numbered takes.

A drain is for readers that plan a batch first and read it afterwards, maybe twice: a take with its number stays the
same until it is finished (its messages are acknowledged) or released (they go back to the queue). It belongs to no
connection, survives every restart and fail-over, and ends by itself when it has been silent for its time to live.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from tocsin.model.errors import JournalDamaged
from tocsin.model.ranges import Range, RangeSet
from tocsin.model.values import Bytes

Piece = tuple[int, int, int]
"""(start, end, recorded delivery attempts) of messages that are held."""

_PIECE_NUMBERS = 3


class NotYet(Exception):
    """A request can't be answered now and is asked again when something has changed; nobody outside sees this."""


@dataclass(slots=True)
class Take:
    number: int
    pieces: list[Piece]
    """In the order in which a consumer would have got them."""
    size: int
    """About how many bytes the messages have."""
    held: RangeSet
    """The offsets of the pieces."""

    @classmethod
    def of(cls, number: int, pieces: list[Piece], size: int) -> Take:
        return cls(number, pieces, size, RangeSet((start, end) for start, end, _ in pieces))

    @property
    def messages(self) -> int:
        return sum(end - start for start, end, _ in self.pieces)

    def ranges(self) -> list[Range]:
        """As the pieces are, but without the attempts: what only differs in them is one range."""
        found: list[Range] = []
        for start, end, _ in self.pieces:
            if found and found[-1][1] == start:
                found[-1] = (found[-1][0], end)
            else:
                found.append((start, end))
        return found


@dataclass(slots=True)
class Drain:
    name: str
    seconds: int
    """It is released when it has been silent for so long."""
    finished: int
    """Takes up to this number are finished, or were never made."""
    takes: dict[int, Take] = field(default_factory=dict)
    """In rising order of their numbers."""
    touched: float = 0.0
    """When it was last heard of, on the monotonic clock of this process; in no record."""

    @property
    def last(self) -> int:
        return next(reversed(self.takes), self.finished)

    @property
    def messages(self) -> int:
        return sum(take.messages for take in self.takes.values())

    def deadline(self) -> float:
        return self.touched + self.seconds

    def up_to(self, number: int) -> list[Take]:
        """Takes with a number up to this one, the first first."""
        return [take for take in self.takes.values() if take.number <= number]


# ---- as snapshots and records have them


def pack_pieces(pieces: list[Piece]) -> bytes:
    return array("Q", [number for piece in pieces for number in piece]).tobytes()


def unpack_pieces(data: Bytes) -> list[Piece]:
    numbers = array("Q")
    if len(data) % (_PIECE_NUMBERS * numbers.itemsize):
        raise JournalDamaged("The ranges of a drain are cut off.")
    numbers.frombytes(data)
    flat = numbers.tolist()
    return list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))


def drain_fields(drain: Drain) -> dict[str, Any]:
    takes = [[take.number, take.size, pack_pieces(take.pieces)] for take in drain.takes.values()]
    return {"name": drain.name, "seconds": drain.seconds, "finished": drain.finished, "takes": takes}


def load_drain(fields: dict[str, Any], now: float) -> Drain:
    takes = {number: Take.of(number, unpack_pieces(data), size) for number, size, data in fields["takes"]}
    return Drain(fields["name"], fields["seconds"], fields["finished"], takes, now)
