"""Reads payloads back, with all checks. Runs in its own thread, so that a cold read stops nothing else."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from tocsin.journal.jobs import Location
from tocsin.journal.record import HEADER, HEADER_BYTES, record_bytes
from tocsin.journal.segment import FILE_HEADER_BYTES, HeaderState, decode_header
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged, StorageFailed
from tocsin.model.limits import READ_BYTES_MAX, READ_GAP_BYTES_MAX, READ_OPEN_FILES_MAX, READ_WINDOW_BYTES_MIN
from tocsin.runtime.ports import Buffer, File, Files


class StaleLocation(LookupError):
    """The segment was compacted or dropped after the location was given; ask the journal again where the
    record is.
    """


class BlockReader:
    """Keeps a few files open. A file that was replaced meanwhile stays readable through its open handle."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._open: OrderedDict[tuple[str, int], tuple[File, int]] = OrderedDict()

    def read(self, locations: Sequence[Location]) -> list[bytes]:
        """The payloads, in the order of `locations`. Raises JournalDamaged or StaleLocation."""
        return [bytes(payload) for payload in self._payloads(locations)]

    def read_windows(self, locations: Sequence[Location]) -> list[Buffer]:
        """The same without a copy of the large ones: they are windows into what was read at once with their
        neighbours, which stays in memory with them.
        """
        return [
            payload if len(payload) >= READ_WINDOW_BYTES_MIN else bytes(payload)
            for payload in self._payloads(locations)
        ]

    def read_each(self, locations: Sequence[Location], *, current: bool = False) -> list[Buffer | JournalDamaged]:
        """The same, with the damage itself in the place of a record that cannot be read.

        Raises StaleLocation, unless the locations are `current`: then a file that is not as they say is damaged.
        """
        try:
            return list(self.read_windows(locations))
        except StaleLocation:
            if not current:
                raise
        except (JournalDamaged, StorageFailed):
            pass
        return [self._read_one(where, current) for where in locations]

    def _read_one(self, where: Location, current: bool) -> Buffer | JournalDamaged:
        """A disk that cannot read a record has damaged it."""
        try:
            return self.read((where,))[0]
        except JournalDamaged as damage:
            return damage
        except StaleLocation as stale:
            if not current:
                raise
            return JournalDamaged(str(stale))
        except StorageFailed as failure:
            return JournalDamaged(f"{where.file}, position {where.position}: {failure}")

    def _payloads(self, locations: Sequence[Location]) -> list[memoryview]:
        payloads = [memoryview(b"")] * len(locations)
        order = sorted(range(len(locations)), key=lambda place: locations[place][:3])
        for run in _runs(locations, order):
            first, last = locations[run[0]], locations[run[-1]]
            file, seed = self._file(first)
            data = file.read(first.position, _end(last) - first.position)
            for place in run:
                where = locations[place]
                payloads[place] = verified_payload(data, where.position - first.position, seed, where)
        return payloads

    def read_records(self, locations: Sequence[Location]) -> list[tuple[int, int, bytes]]:
        """(kind, epoch, payload) of whole records that stand in order, each where its location says."""
        records: list[tuple[int, int, bytes]] = []
        for run in _runs(locations, list(range(len(locations)))):
            first, last = locations[run[0]], locations[run[-1]]
            file, seed = self._file(first)
            data = file.read(first.position, _end(last) - first.position)
            for place in run:
                where = locations[place]
                offset = where.position - first.position
                payload = bytes(verified_payload(data, offset, seed, where))
                header = HEADER.unpack_from(data, offset)
                records.append((header[7], header[3], payload))
        return records

    def forget(self, name: str) -> None:
        """Close what is open of a file, when it is known that nobody has a location in it any more."""
        for key in [key for key in self._open if key[0] == name]:
            self._open.pop(key)[0].close()

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1][0].close()

    def _file(self, where: Location) -> tuple[File, int]:
        key = (where.file, where.generation)
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        try:
            file = self._files.open(where.file)
        except FileNotFoundError:
            raise StaleLocation(f"{where.file} has been dropped since its record was located.") from None
        try:
            seed = _seed(file, where)
        except BaseException:
            file.close()
            raise
        self._open[key] = file, seed
        if len(self._open) > READ_OPEN_FILES_MAX:
            self._open.popitem(last=False)[1][0].close()
        return file, seed


def _seed(file: File, where: Location) -> int:
    state, header = decode_header(file.read(0, FILE_HEADER_BYTES))
    if state is not HeaderState.GOOD or header is None:
        raise JournalDamaged(f"{where.file}: the file header is {state.value}; see `tocsin journal check`.")
    if header.generation != where.generation:
        raise StaleLocation(f"{where.file} has been compacted since its record was located.")
    return header.seed()


def _end(where: Location) -> int:
    return where.position + record_bytes(where.skip + where.length)


def _runs(locations: Sequence[Location], order: list[int]) -> Iterator[list[int]]:
    """Neighbours in one file, each run to be read at once."""
    run: list[int] = []
    for place in order:
        if run and not _joins(locations[run[0]], locations[run[-1]], locations[place]):
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _joins(first: Location, last: Location, following: Location) -> bool:
    return (
        first[:2] == following[:2]
        and following.position - _end(last) <= READ_GAP_BYTES_MAX
        and _end(following) - first.position <= READ_BYTES_MAX
    )


def verified_payload(data: bytes, offset: int, seed: int, where: Location) -> memoryview:
    """The payload of the record at `data[offset:]`, which `where` describes; every check is made."""
    problem = "the file ends before it"
    stored = where.skip + where.length
    end = offset + record_bytes(stored)
    if len(data) >= end:
        check, length, _, _, payload_check, *_ = HEADER.unpack_from(data, offset)
        view = memoryview(data)
        if crc32(view[offset + 4 : offset + HEADER_BYTES], seed ^ where.position) != check:
            problem = "the record header does not match its check"
        elif length != stored:
            problem = f"the record has {length} bytes where {stored} were written"
        elif crc32(view[offset + HEADER_BYTES : end]) != payload_check:
            problem = "the payload does not match its check"
        else:
            begin = offset + HEADER_BYTES
            return view[begin + where.skip : begin + stored]
    raise JournalDamaged(
        f"{where.file}, position {where.position}: {problem}. `tocsin journal check` lists all damage."
    )
