"""Retention holds of one topic: everything from a hold's offset on stays, whatever age and size say.

A hold has a name and an end: who does not set it again in time (a query that was given up) keeps nobody's disk full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tocsin.message_manager.records import write_map


@dataclass(slots=True)
class Hold:
    offset: int
    end_ms: int
    """When it ends by itself, in ms since 1970."""


class Holds:
    """By name, in the order in which they were first set."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: dict[str, Hold] = {}

    def lowest(self) -> int:
        """Nothing from here on may be dropped; there must be a hold."""
        return min(hold.offset for hold in self.rows.values())

    def next_end_ms(self) -> int:
        return min(hold.end_ms for hold in self.rows.values())

    def overdue(self, now_ms: int) -> list[str]:
        return [name for name, hold in self.rows.items() if hold.end_ms <= now_ms]

    def apply(self, fields: dict[str, Any]) -> None:
        """A HOLD record."""
        if fields["offset"] is None:
            self.rows.pop(fields["name"], None)
        else:
            self.rows[fields["name"]] = Hold(fields["offset"], fields["end_ms"])

    def fields(self) -> list[list[Any]]:
        """For snapshots."""
        return [[name, hold.offset, hold.end_ms] for name, hold in self.rows.items()]

    def load(self, rows: list[list[Any]]) -> None:
        self.rows = {name: Hold(offset, end_ms) for name, offset, end_ms in rows}


def hold_record(destination: int, name: str, hold: Hold | None) -> tuple[dict[str, Any], list[bytes]]:
    """What is applied and what is written; without a hold the one of that name is gone."""
    fields = {
        "destination": destination, "name": name, "offset": None if hold is None else hold.offset,
        "end_ms": 0 if hold is None else hold.end_ms,
    }  # fmt: skip
    return fields, write_map(fields)
