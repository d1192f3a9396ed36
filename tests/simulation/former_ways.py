"""What earlier code did, put back: mutants that take more than a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tocsin.journal import stream, stream_file
from tocsin.journal.reader import BlockReader
from tocsin.journal.segment import FILE_HEADER_BYTES, STREAM_FLAVOUR, FileHeader, Identity
from tocsin.journal.stream import StreamStore
from tocsin.journal.stream_file import StreamFile, stream_file_name, stream_folder
from tocsin.journal.stream_index import StreamIndex
from tocsin.message_manager.ledger import DropStream
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Offset
from tocsin.node.upkeep import Upkeep
from tocsin.runtime.ports import Buffer, Files


def dropping_needs_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the last file of a stream goes another is begun, without a spare, and nobody expects a full disk."""

    def begin(files: Files, identity: Identity, stream_id: int, first: int, begun_at: int) -> StreamFile:
        header = FileHeader(identity, STREAM_FLAVOUR, first, last=begun_at, stream_id=stream_id)
        file = files.create(stream_file_name(stream_id, first), 0)
        try:
            file.write(0, [header.encode()])
            file.sync()
        finally:
            file.close()
        files.sync_directory(stream_folder(stream_id))
        return StreamFile(files, header, StreamIndex(first, FILE_HEADER_BYTES), header.chain())

    def drop_before(self: StreamStore, stream_id: int, offset: Offset) -> int:
        files = self._streams.get(stream_id, [])
        if files and files[-1].index.entries and files[-1].index.end_offset() <= offset:
            self._begin(stream_id, files[-1].index.end_offset())
        return self._drop_older(stream_id, offset)

    def drop_stream(self: Upkeep, drop: DropStream) -> None:
        streams = self._owner.streams

        def job() -> None:
            if drop.before is None:
                streams.delete(drop.destination)
            else:
                streams.drop_before(drop.destination, Offset(drop.before))

        self._workers.upkeep(job, lambda _: self._stream_dropped(drop, True))

    for module in (stream, stream_file):
        monkeypatch.setattr(module, "make_spare", _nothing)
    monkeypatch.setattr(stream, "begin_stream_file", begin)
    monkeypatch.setattr(StreamStore, "drop_before", drop_before)
    monkeypatch.setattr(Upkeep, "drop_stream", drop_stream)


def damage_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads what cannot be read raises, and nobody expects that."""
    read_each: Callable[..., list[Buffer | JournalDamaged]] = BlockReader.read_each

    def read(self: BlockReader, *arguments: Any, **options: Any) -> list[Buffer | JournalDamaged]:
        found = read_each(self, *arguments, **options)
        for payload in found:
            if isinstance(payload, JournalDamaged):
                raise payload
        return found

    monkeypatch.setattr(BlockReader, "read_each", read)


def _nothing(*arguments: Any) -> None:
    """Instead of something."""
