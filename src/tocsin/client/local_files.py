"""Ranges of retained topics out of the server's own files, for readers on its host that may open them.

The server says in which files a range is and up to where they are whole; they are mapped, and blocks are windows into
them: nothing is sent and nothing copied. Whatever is in the way (another host, no right to read, a file that another
user could change, one that retention has removed, a byte that is another) ends it, and the rest of the range comes over
the connection, which tells of whatever is worth telling.
"""

from __future__ import annotations

import logging
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tocsin.client import operations
from tocsin.client.consumer_spec import ConsumerSpec
from tocsin.client.core import Core
from tocsin.client.core_reading import RangeBlock
from tocsin.client.core_sessions import Fields
from tocsin.client.pending import Steps
from tocsin.journal.stream_view import view_entries
from tocsin.model.batch import Block
from tocsin.model.destination import Kind
from tocsin.model.errors import JournalDamaged, TimedOut, TocsinError
from tocsin.model.limits import LOCAL_MESSAGES_MIN
from tocsin.model.stored_block import stored_block
from tocsin.runtime.ownership import check_status

LOG = logging.getLogger("tocsin.client")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Offsets from `first` up to `end` are in a file: from a position on, and before its first `bytes` are over."""

    path: str
    first: int
    end: int
    position: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Where a range is stored, as far as the server said."""

    journal_id: bytes
    stream_id: int
    files: tuple[StoredFile, ...]
    more: bool
    """The range goes on in files behind these: ask again."""
    identity: str | None = None
    """Of the topic: what is asked for next must be of the same one."""

    @classmethod
    def of(cls, reply: Fields) -> StoredFiles | None:
        """None when nothing of the range is in files that can be told."""
        journal, stream = reply.get("journal"), reply.get("stream")
        if not reply["files"] or journal is None or stream is None:
            return None
        files = [
            StoredFile(each["path"], each["first"], each["end"], each["position"], each["bytes"])
            for each in reply["files"]
        ]
        return cls(journal, stream, tuple(files), reply["more"], reply.get("identity"))


Ask = Callable[[int], StoredFiles | None]
"""Asks where a range is stored, from an offset on."""


def is_worth_it(spec: ConsumerSpec, local: bool | None, on_host: bool) -> bool:
    """Whether the server should be asked for files: only whole ranges of topics are in them as they are wanted."""
    wanted = spec.start or {}
    if local is False or spec.selector is not None or "drain" in wanted or spec.destination.kind is not Kind.TOPIC:
        return False
    return bool(local) or (on_host and wanted["end"] - wanted["offset"] >= LOCAL_MESSAGES_MIN)


def ask_steps(core: Core, spec: ConsumerSpec, start: int) -> Steps[StoredFiles | None]:
    """None for a range that is to be read in the ordinary way, which also tells what is wrong with it."""
    assert spec.start is not None
    asked = {"destination": str(spec.destination), "start": start, "end": spec.start["end"]}
    if "identity" in spec.start:
        asked["identity"] = spec.start["identity"]
    try:
        return StoredFiles.of((yield from operations.request(core, 0, "offset.files", asked)))
    except TimedOut:
        # To ask in another way would only double the wait.
        raise
    except TocsinError as error:
        LOG.debug("files of %s are not told: %s", spec.destination, error)
        return None


def local_blocks(stored: StoredFiles | None, ask: Ask, start: int, end: int) -> Iterator[RangeBlock]:
    """The blocks of a range from its start on, one behind another, as far as they can be had from files."""
    position = start
    while stored is not None:
        before = position
        for file in stored.files:
            for found in _file_blocks(stored, file, position, end):
                position = found.offset + found.ranges[-1][1]
                yield found
            if position < min(file.end, end):
                return
        if not stored.more or not before < position < end:
            return
        stored = ask(position)


def _file_blocks(stored: StoredFiles, file: StoredFile, position: int, end: int) -> Iterator[RangeBlock]:
    try:
        data = _map(file)
        for first, count, append_time, content in view_entries(
            data, stored.journal_id, stored.stream_id, file.position
        ):
            if not first <= position < first + count:
                raise JournalDamaged(f"Offsets {first} to {first + count} are where {position} was to be.")
            block = Block(stored_block(content))
            if block.count < count:
                raise JournalDamaged(f"The block at offset {first} has {block.count} messages, not {count}.")
            last = min(first + count, file.end, end)
            yield RangeBlock(first, append_time, [(position - first, last - first)], block)
            position = last
            if position >= min(file.end, end):
                return
    except (OSError, ValueError, OverflowError, TocsinError) as error:
        LOG.debug("%s is not read from offset %d on: %s", file.path, position, error)


def _map(file: StoredFile) -> memoryview:
    """The map lives as long as anything refers to it; what retention removes meanwhile stays readable.

    Reading a map behind the end of its file would end this process: nobody else may be able to cut it.
    """
    # Before it is opened: that alone may do something, or wait, where it is no file.
    _check_trusted(file, os.lstat(file.path))
    descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        _check_trusted(file, os.fstat(descriptor))
        return memoryview(mmap.mmap(descriptor, file.bytes, access=mmap.ACCESS_READ))
    finally:
        os.close(descriptor)


def _check_trusted(file: StoredFile, found: os.stat_result) -> None:
    """A server may name any path, and need not be what it says."""
    check_status(file.path, found, os.geteuid(), file.path)
    if not stat.S_ISREG(found.st_mode) or not 0 < file.bytes <= found.st_size:
        raise JournalDamaged("It is no file, or shorter than the server says.")
