"""How far a streaming query is, as Spark writes it into its checkpoint.

    {"d": {"prices": {"0": 123, "id": "..."}, "jobs": {"0": 7, "drain": "...", "id": "..."}}, "v": 1}

Per destination: `id` tells it from another one of the same name that was made later. For a topic "0" is the next offset
to read. For a queue that is drained, "0" is the number of the last take of the drain with that id, and the takes name
the messages (tocsin.spark.draining). Spark compares these texts, so the keys always come in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.model.errors import ConfigError

VERSION = 1


@dataclass(frozen=True, slots=True)
class Position:
    identity: str
    number: int
    drain: str | None = None


Positions = dict[str, Position]
"""By the destination's name."""


def to_json(positions: Mapping[str, Position]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted(positions):
        position = positions[name]
        entry: dict[str, Any] = {"0": position.number}
        if position.drain is not None:
            entry["drain"] = position.drain
        found[name] = {**entry, "id": position.identity}
    return {"d": found, "v": VERSION}


def from_json(offset: Mapping[str, Any]) -> Positions:
    version = offset.get("v")
    if isinstance(version, int) and version > VERSION:
        raise ConfigError(
            f"The checkpoint has offsets of version {version}; this release reads up to {VERSION}. Use a newer one."
        )
    found = offset.get("d")
    if version != VERSION or not isinstance(found, dict):
        raise ConfigError("The checkpoint's offsets are not of the tocsin source; use another checkpointLocation.")
    try:
        return {name: Position(str(entry["id"]), int(entry["0"]), entry.get("drain")) for name, entry in found.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"The checkpoint has an offset that can't be read: {found!r}.") from error
