"""A start meets damage in a topic's own file: it goes on behind it, and only who reads just that is told.

Nothing is cut and nothing is given up: a header that one wrong byte has spoiled is put right, a block that cannot be
read keeps its place in the index, so that it can be mended or told of. What the damage hides of the stream's shape is
taken from what stands behind it; where that does not tell, the start is refused.
"""

from __future__ import annotations

from tocsin.journal.mend import restore_file_header, sound_header
from tocsin.journal.record import BARRIER, HEADER, HEADER_BYTES, RecordEncoder, record_bytes
from tocsin.journal.scan import ScanState, Stop
from tocsin.journal.segment import FileHeader
from tocsin.journal.stream_entry import ENTRY, PREFIX_BYTES, decode_prefix
from tocsin.journal.stream_index import StreamIndex
from tocsin.journal.tail import find_headers
from tocsin.model.batch import Block
from tocsin.model.errors import MessageFormatError
from tocsin.model.stored_block import stored_block
from tocsin.runtime.ports import File


def pass_damage(file: File, scan: ScanState, stop: Stop, index: StreamIndex) -> bool:
    """Move a scan past the bad place where it stands, which is no torn tail. False: it cannot be told how to go on."""
    data = file.read(scan.position, scan.end - scan.position)
    if stop is Stop.PAYLOAD:
        return _pass_block(data, scan, index)
    if stop in (Stop.HEADER, Stop.ZERO):
        return _mend_header(file, data, scan) or _pass_records(data, scan)
    return False


def _pass_block(data: bytes, scan: ScanState, index: StreamIndex) -> bool:
    """The header is good, the block is not."""
    check, length, first, _, _, _, _, kind, _ = HEADER.unpack_from(data)
    if kind != ENTRY or length < PREFIX_BYTES:
        return False
    _, _, count = decode_prefix(data[HEADER_BYTES:])
    following = _next_entry(data, scan, record_bytes(length))
    if following is not None and following > first:
        count = following - first
    elif count != _messages(data[HEADER_BYTES + PREFIX_BYTES : HEADER_BYTES + length]):
        return False
    # Its time may be what is damaged: a search by time must not lose what was appended later.
    index.add(scan.position, length - PREFIX_BYTES, first, count, index.times[-1] if index.entries else 0)
    scan.position += record_bytes(length)
    scan.chain, scan.last_lsn = check, first
    return True


def _messages(payload: bytes) -> int | None:
    """How many messages a block says that it has."""
    try:
        return int(Block(stored_block(payload)).count)
    except MessageFormatError:
        return None


def _next_entry(data: bytes, scan: ScanState, offset: int) -> int | None:
    """The first offset of the entry that stands at a place or behind the barriers there."""
    while (header := data[offset : offset + HEADER_BYTES]) and sound_header(header, scan.seed, scan.position + offset):
        first, kind = HEADER.unpack(header)[2], HEADER.unpack(header)[7]
        if kind == ENTRY:
            return int(first)
        offset += HEADER_BYTES
    return None


def _mend_header(file: File, data: bytes, scan: ScanState) -> bool:
    """One wrong byte is put right: by the check that the next record repeats, or because only a barrier fits there."""
    following = next(find_headers(data, scan.position, scan.seed, scan.position), None)
    if following is None:
        if len(data) != HEADER_BYTES:
            return False
        proof = RecordEncoder(scan.seed, scan.chain, scan.position)
        proof.add_barrier(scan.last_lsn)
        header: bytes | None = b"".join(proof.parts)
    else:
        size = following - scan.position
        header = sound_header(data[:HEADER_BYTES], scan.seed, scan.position, data[size : size + HEADER_BYTES])
        if header is None or record_bytes(HEADER.unpack(header)[1]) != size:
            return False
    assert header is not None
    file.write(scan.position, [header])
    file.sync()
    return True


def _pass_records(data: bytes, scan: ScanState) -> bool:
    """Records cannot be told apart any more: the scan goes on with the next good one, if it shows where that is."""
    following = next(find_headers(data, scan.position, scan.seed, scan.position), None)
    if following is None or _next_entry(data, scan, following - scan.position) is None:
        return False
    _, _, number, _, _, before, _, kind, _ = HEADER.unpack_from(data, following - scan.position)
    scan.position, scan.chain = following, before
    scan.last_lsn = number if kind == BARRIER else number - 1
    return True


def mend_file_header(file: File, expected: FileHeader) -> FileHeader | None:
    """The file's header, written again; None when it was another one. `expected` says where the file before it ends,
    which need not be where this one was begun: files before it may have been dropped since.
    """
    for begun_at in (expected.last, expected.first, 0):
        header = FileHeader(expected.identity, expected.flavour, expected.first, begun_at, expected.stream_id)
        if restore_file_header(file, header):
            return header
    return None
