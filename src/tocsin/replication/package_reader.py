"""Reads a package (see `package`) back from disk, in bounded memory: once to see that it is whole, then in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tocsin.journal.scan import Record
from tocsin.journal.snapshot import Section
from tocsin.journal.staging import StreamPiece
from tocsin.journal.stream_entry import StreamEntry
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn, Offset
from tocsin.model.limits import RECORD_BYTES_MAX
from tocsin.replication.journal_snapshot import GROUP_SECTION
from tocsin.replication.package import CHECK, FORMAT_VERSION, HEAD, HEAD_BYTES, ITEM, ITEM_BYTES, MAGIC, ItemType
from tocsin.runtime.ports import File, Files

_READ_BYTES = 1024 * 1024


class _Item(NamedTuple):
    type: int
    kind: int
    epoch: int
    lsn: int
    stream: int
    offset: int
    time: int
    body: memoryview
    begin: int
    end: int
    """Where it is in the file."""


class _Repeatable:
    """Records that can be read more than once."""

    def __init__(self, items: Callable[[], Iterator[_Item]]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Record]:
        for item in self._items():
            yield Lsn(item.lsn), item.kind, item.epoch, item.body


class PackageReader:
    """`verify` first: it raises JournalDamaged when anything is not as it should be."""

    def __init__(self, files: Files, name: str) -> None:
        self._name = name
        self._file: File = files.open(name)
        self._begins: dict[int, int] = {}
        """Where the first item of each type is."""
        self.lsn = self.last_lsn = self.epoch = 0

    def verify(self) -> None:
        head = self._file.read(0, HEAD_BYTES)
        if len(head) < HEAD_BYTES or crc32(head[: HEAD.size]) != CHECK.unpack_from(head, HEAD.size)[0]:
            raise self._damage("its begin is damaged")
        magic, version, _, self.lsn = HEAD.unpack_from(head)
        if magic != MAGIC or version != FORMAT_VERSION:
            raise self._damage("it is of another release")
        order = _Order(self.lsn)
        for item in self._items(HEAD_BYTES):
            problem = order.problem(item)
            if problem:
                raise self._damage(f"position {item.begin}: {problem}")
            self._begins.setdefault(item.type, item.begin)
            if item.type == ItemType.END:
                self.last_lsn, self.epoch = item.lsn, item.epoch
                if item.end != self._file.size():
                    raise self._damage("something follows its end")
                return

    def sections(self) -> Iterator[Section]:
        for item in self._of(ItemType.SECTION):
            yield Section(bytes(item.body[: item.stream]).decode(), Lsn(item.lsn), item.body[item.stream :])

    def live(self) -> _Repeatable:
        return _Repeatable(lambda: self._of(ItemType.LIVE))

    def records(self) -> _Repeatable:
        return _Repeatable(lambda: self._of(ItemType.RECORD))

    def streams(self) -> Iterator[StreamPiece]:
        end = 0
        for item in self._of(ItemType.STREAM, ItemType.BLOCK):
            if item.type == ItemType.STREAM:
                end = item.offset
                yield StreamPiece(item.stream, end, None)
            else:
                entry = StreamEntry(Offset(item.offset), item.epoch, item.time, Lsn(item.lsn), item.body)
                yield StreamPiece(item.stream, end, entry)

    def close(self) -> None:
        self._file.close()

    def _of(self, *types: ItemType) -> Iterator[_Item]:
        begin = self._begins.get(types[0])
        if begin is None:
            return
        for item in self._items(begin):
            if item.type not in types:
                return
            yield item

    def _items(self, position: int) -> Iterator[_Item]:
        """Each with its check made, read in big pieces; without an end the package is cut off."""
        data, base = b"", position
        item_type = 0
        while item_type != ItemType.END:
            if position + ITEM_BYTES > base + len(data):
                data, base = self._file.read(position, _READ_BYTES), position
            at = position - base
            if at + ITEM_BYTES > len(data):
                raise self._damage("it is cut off")
            item_type, kind, epoch, length, lsn, stream, offset, time = ITEM.unpack_from(data, at + CHECK.size)
            end = position + ITEM_BYTES + length
            if end > self._file.size():
                raise self._damage("it is cut off")
            if end > base + len(data):
                data, base = self._file.read(position, max(_READ_BYTES, end - position)), position
                at = 0
            view = memoryview(data)[at : at + ITEM_BYTES + length]
            if crc32(view[CHECK.size :]) != CHECK.unpack_from(view)[0]:
                raise self._damage(f"position {position}: the bytes do not match their check")
            yield _Item(item_type, kind, epoch, lsn, stream, offset, time, view[ITEM_BYTES:], position, end)
            position = end

    def _damage(self, problem: str) -> JournalDamaged:
        return JournalDamaged(f"{self._name}: the snapshot of the other member can't be used: {problem}.")


class _Order:
    """What must hold between the items of a package."""

    def __init__(self, lsn: int) -> None:
        self._lsn = lsn
        self._type = self._items = 0
        self._highest = self._last = lsn
        self._live = 0
        self._group = False
        self._stream = -1
        self._offset = self._end = 0

    def problem(self, item: _Item) -> str | None:
        """What is wrong with the next item; None when nothing is."""
        in_part = {self._type, item.type} <= {ItemType.STREAM, ItemType.BLOCK}
        if item.type < self._type and not in_part:
            return "an item is out of order"
        self._type = item.type
        problem = self._check(item)
        self._items += 1
        return problem

    def _check(self, item: _Item) -> str | None:
        match item.type:
            case ItemType.SECTION:
                return self._section(item)
            case ItemType.LIVE | ItemType.RECORD:
                return self._record(item)
            case ItemType.STREAM:
                closed = self._stream_open()
                if item.stream <= self._stream or closed:
                    return closed or "a stream is out of order"
                self._stream, self._offset, self._end = item.stream, 0, item.offset
                return None
            case ItemType.BLOCK:
                return self._block(item)
            case ItemType.END:
                return self._finish(item)
        return f"there is no item of type {item.type}"

    def _section(self, item: _Item) -> str | None:
        if item.lsn < self._lsn or item.stream > len(item.body):
            return "a section is older than its snapshot, or has no name"
        name = bytes(item.body[: item.stream])
        self._group = self._group or (name == GROUP_SECTION.encode() and item.lsn == self._lsn)
        self._highest = max(self._highest, item.lsn)
        return None

    def _record(self, item: _Item) -> str | None:
        if len(item.body) > RECORD_BYTES_MAX:
            return "a record is too large"
        if item.type == ItemType.LIVE:
            if not self._live < item.lsn <= self._lsn:
                return "a live record is out of order"
            self._live = item.lsn
        elif item.lsn != self._last + 1:
            return "a record is missing"
        else:
            self._last = item.lsn
        return None

    def _block(self, item: _Item) -> str | None:
        end = item.offset + item.epoch
        if item.stream != self._stream or item.offset < self._offset or not item.offset < end <= self._end:
            return "a block is out of order"
        self._offset = end
        return None

    def _stream_open(self) -> str | None:
        """A stream may have lost all its blocks, but not just its last ones."""
        return "the end of a stream is missing" if self._offset not in (0, self._end) else None

    def _finish(self, item: _Item) -> str | None:
        if item.stream != self._items:
            return "items are missing"
        if not self._last == self._highest == item.lsn:
            return "the records behind the snapshot are missing"
        if not self._group:
            return "it is of no group"
        return self._stream_open()
