"""What a reader of a range asks for, as the map `start` of the protocol has it.

offset        where it begins
end           where it ends; without it a replay has no end, and is none of these
columns       names of the columns that it wants (tocsin.model.projection); all when absent
skip_removed  true: what retention has removed, or the disk has damaged, is passed over; otherwise it is an error
drain, take   the range is read for a drain of a queue
identity      of the destination that the offsets are of: any other one of its name is refused
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.model.errors import ProtocolError
from tocsin.model.limits import OFFSET_MAX
from tocsin.model.projection import Projection

_OTHER_STARTS = frozenset({"at", "time_ms"})


@dataclass(frozen=True, slots=True)
class RangeRead:
    offset: int
    end: int
    projection: Projection | None = None
    skip_removed: bool = False
    drain: str | None = None
    take: int = 0


def range_of(start: Mapping[str, Any] | None) -> RangeRead | None:
    """The range that a start names; None when it names no end."""
    if not start or start.get("end") is None:
        return None
    offset, end, take = (_offset(start, name) for name in ("offset", "end", "take"))
    if offset > end:
        raise ProtocolError(f"A range to read ends at {end}, before it begins at {offset}.")
    columns, drain = start.get("columns"), start.get("drain")
    if columns is not None and not (isinstance(columns, list) and all(isinstance(each, str) for each in columns)):
        raise ProtocolError("The columns of a range to read must be a list of names.")
    if drain is not None and not isinstance(drain, str):
        raise ProtocolError("The drain of a range to read must be a text.")
    projection = None if columns is None else Projection(columns)
    return RangeRead(offset, end, projection, bool(start.get("skip_removed")), drain, take)


def _offset(start: Mapping[str, Any], name: str) -> int:
    value = start.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= OFFSET_MAX:
        raise ProtocolError(f"The field {name!r} of a range to read must be a number from 0 to {OFFSET_MAX}.")
    return value


def go_on_at(start: Mapping[str, Any] | None, offset: int) -> dict[str, Any]:
    """The same start for one who has everything before an offset."""
    kept = {name: value for name, value in (start or {}).items() if name not in _OTHER_STARTS}
    return kept | {"offset": offset}


def of_destination(start: Mapping[str, Any] | None, identity: str | None) -> dict[str, Any] | None:
    """The same start for one who means just this destination; None stays what it is where nobody knows which."""
    if identity is None or start is None:
        return None if start is None else dict(start)
    return {**start, "identity": identity}
