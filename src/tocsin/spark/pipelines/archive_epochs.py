"""What an epoch of a streaming query covers: Spark writes it into the checkpoint before the epoch begins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.model.errors import ArchiveDamaged
from tocsin.spark.pipelines.archive_folder import Folder
from tocsin.spark.pipelines.archive_log import ArchiveState, DataFile, TopicRange


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to read of a topic, and which topic of that name is meant."""

    identity: str
    offset: int


def query_id(checkpoint: Folder) -> str | None:
    """Of the query that the checkpoint belongs to; None before its first start."""
    data = checkpoint.read("metadata")
    return None if data is None else str(json.loads(data)["id"])


def positions_after(checkpoint: Folder, epoch: int) -> dict[str, Position]:
    """Where each topic stands when the epoch is done; nothing for an epoch that was never planned."""
    data = checkpoint.read(f"offsets/{epoch}") if epoch >= 0 else None
    if data is None:
        return {}
    for line in data.decode().splitlines():
        found = _positions(line)
        if found is not None:
            return found
    raise ArchiveDamaged(f"The checkpoint at {checkpoint.root} says nothing about offsets in epoch {epoch}.")


def _positions(line: str) -> dict[str, Position] | None:
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    # Spark may write a source's offset as a text within its own JSON.
    if isinstance(fields, str):
        return _positions(fields)
    if not isinstance(fields, dict) or not isinstance(fields.get("d"), dict):
        return None
    return {topic: Position(str(each.get("id", "")), int(each["0"])) for topic, each in fields["d"].items()}


def epoch_ranges(
    state: ArchiveState,
    before: Mapping[str, Position],
    after: Mapping[str, Position],
    files: Sequence[DataFile],
    *,
    may_lose: bool,
) -> tuple[TopicRange, ...]:
    """The offsets that an epoch adds, topic by topic. It begins where the archive ends, so that a hole would be seen;
    a topic that is new begins where the epoch before it stood, or with its first row.
    """
    found = []
    for topic, end in sorted(after.items()):
        own = [each for each in files if each.topic == topic]
        rows = sum(each.rows for each in own)
        lowest = min((each.first for each in own), default=end.offset)
        known = state.end_of(topic)
        if may_lose:
            # What retention took before it was read is no part of the archive.
            first = lowest
        elif known is not None and known.identity == end.identity:
            first = known.end
        elif topic in before and before[topic].identity == end.identity:
            first = before[topic].offset
        else:
            first = lowest
        if first < end.offset:
            found.append(TopicRange(topic, end.identity, first, end.offset, rows))
    return tuple(found)


def starting_offsets(ends: Mapping[str, Any], topics: Sequence[str]) -> str:
    """The option startingOffsets that reads on where ranges end, and from the beginning for what is not among them."""
    earliest = -2
    known = {topic: ends[topic].end if topic in ends else earliest for topic in topics}
    return json.dumps({topic: {"0": offset} for topic, offset in known.items()}, sort_keys=True)
