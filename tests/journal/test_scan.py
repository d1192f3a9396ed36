"""Walking records: what is accepted, and where and why a scan stops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.journal.record import HEADER_BYTES, RecordEncoder
from tocsin.journal.scan import ScanState, Stop, scan_chunk, scan_file
from tocsin.testing.disk import SimulatedDisk

SEED, CHAIN, START = 11, 22, 80


def encoded(*payloads: bytes, last: bool = False) -> bytes:
    encoder = RecordEncoder(SEED, CHAIN, START)
    for lsn, data in enumerate(payloads, 1):
        encoder.add(1, 5, lsn, [data])
    encoder.add_barrier(len(payloads), last=last)
    return b"".join(encoder.parts)


def state(size: int, *, dense: bool = True) -> ScanState:
    return ScanState(SEED, CHAIN, START, START + size, 0, dense=dense)


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_what_was_encoded_is_read_back(payloads: list[bytes]) -> None:
    data = encoded(*payloads, last=True)
    scan = state(len(data))
    records, stop = scan_chunk(data, scan)
    assert stop is Stop.SEALED
    assert [(lsn, kind, epoch, bytes(view)) for lsn, kind, epoch, view in records] == [
        (lsn, 1, 5, data) for lsn, data in enumerate(payloads, 1)
    ]
    assert (scan.position, scan.last_lsn) == (START + len(data), len(payloads))


def test_zero_bytes_end_a_scan() -> None:
    data = encoded(b"a", b"b") + bytes(100)
    scan = state(len(data))
    records, stop = scan_chunk(data, scan)
    assert (len(records), stop) == (2, Stop.ZERO)
    assert scan.position == START + len(data) - 100


def test_a_piece_that_ends_inside_a_record_asks_for_more() -> None:
    data = encoded(b"a" * 50, b"b" * 50)
    for cut in range(len(data)):
        scan = state(len(data))
        first, stop = scan_chunk(data[:cut], scan)
        assert stop is Stop.MORE
        second, stop = scan_chunk(data[scan.position - START :], scan)
        assert len(first) + len(second) == 2


@pytest.mark.parametrize("bit", range(8 * (2 * HEADER_BYTES + 16)))
def test_every_flipped_bit_stops_the_scan_before_the_bad_record(bit: int) -> None:
    data = bytearray(encoded(b"12345678", b"abcdefgh"))
    data[bit // 8] ^= 1 << bit % 8
    scan = state(len(data))
    records, stop = scan_chunk(bytes(data), scan)
    bad = bit // 8 // 48
    assert len(records) == bad
    assert scan.position == START + bad * 48
    assert stop in (Stop.HEADER, Stop.PAYLOAD)


def test_a_record_from_elsewhere_does_not_chain() -> None:
    data = encoded(b"a")
    scan = ScanState(SEED, CHAIN + 1, START, START + len(data), 0)
    assert scan_chunk(data, scan) == ([], Stop.CHAIN)


def test_a_gap_in_lsns_stops_a_dense_scan_only() -> None:
    encoder = RecordEncoder(SEED, CHAIN, START)
    encoder.add(1, 0, 3, [b"a"])
    encoder.add(1, 0, 7, [b"b"])
    data = b"".join(encoder.parts)
    assert scan_chunk(data, state(len(data))) == ([], Stop.ORDER)
    scan = state(len(data), dense=False)
    records, _ = scan_chunk(data, scan)
    assert [record[0] for record in records] == list(scan.lsns) == [3, 7]


def test_lsns_never_fall() -> None:
    encoder = RecordEncoder(SEED, CHAIN, START)
    encoder.add(1, 0, 7, [b"a"])
    encoder.add(1, 0, 7, [b"b"])
    data = b"".join(encoder.parts)
    records, stop = scan_chunk(data, state(len(data), dense=False))
    assert (len(records), stop) == (1, Stop.ORDER)


def test_a_record_longer_than_its_file_is_bad() -> None:
    data = encoded(b"a" * 100)[:60]
    assert scan_chunk(data, state(60)) == ([], Stop.LENGTH)


def test_a_file_is_scanned_in_pieces_also_when_a_record_is_larger_than_one() -> None:
    payloads = [b"x" * 3_000_000, b"y" * 10, b"z" * 900_000]
    data = encoded(*payloads, last=True)
    file = SimulatedDisk().create("file", 0)
    file.write(0, [bytes(START), data])
    scan = state(len(data))
    pieces = list(scan_file(file, scan))
    assert [bytes(record[3]) for records, _, _ in pieces for record in records] == payloads
    assert pieces[-1][2] is Stop.SEALED
    assert [place for _, place, _ in pieces] == sorted(place for _, place, _ in pieces)
