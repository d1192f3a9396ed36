"""Torn or damaged: what a bad place near the end of a file looks like."""

from __future__ import annotations

from tocsin.journal.record import HEADER_BYTES, RecordEncoder
from tocsin.journal.scan import Stop
from tocsin.journal.tail import find_headers, find_proof, header_torn, looks_torn, used_end
from tocsin.testing.disk import SimulatedDisk

SEED = 99


def two_commits() -> tuple[bytes, int]:
    """Two commits from position 80 on, and where the second begins."""
    first = RecordEncoder(SEED, 1, 80)
    first.add(1, 0, 1, [b"a" * 600])
    first.add(1, 0, 2, [b"b" * 600])
    first.add_barrier(2)
    second = RecordEncoder(SEED, first.chain, first.position)
    second.add(1, 0, 3, [b"c" * 20])
    second.add_barrier(3)
    return b"".join([*first.parts, *second.parts]), first.position


def test_a_later_commit_proves_an_earlier_one() -> None:
    data, second = two_commits()
    assert find_proof(data, 80, SEED, 80) == second


def test_a_commit_does_not_prove_itself() -> None:
    """The rest of the same commit may have reached the disk although its first sector did not."""
    data, second = two_commits()
    assert find_proof(data[: second - 80], 80, SEED, 80) is None
    assert find_proof(data, 80, SEED, second) is None


def test_proof_is_found_behind_garbage_but_not_made_of_it() -> None:
    data, second = two_commits()
    ruined = bytes(second - 80) + data[second - 80 :]
    assert find_proof(ruined, 80, SEED, 80) == second
    assert find_proof(ruined, 80, SEED + 1, 80) is None
    assert find_proof(ruined, 88, SEED, 88) is None


def test_a_journal_inside_a_payload_is_not_taken_for_one() -> None:
    """A client may send a copy of a journal as a message; checks depend on where a record stands."""
    copy, _ = two_commits()
    encoder = RecordEncoder(SEED, 1, 80)
    encoder.add(1, 0, 1, [copy])
    data = b"".join(encoder.parts)
    assert list(find_headers(data, 80, SEED, 80)) == []


def test_used_end() -> None:
    file = SimulatedDisk().create("file", 3_000_000)
    assert used_end(file, 100) == 100
    file.write(2_500_000, [b"x"])
    assert used_end(file, 100) == 2_500_001
    assert used_end(file, 2_500_001) == 2_500_001


def test_a_missing_sector_looks_torn_and_a_changed_byte_does_not() -> None:
    data, _ = two_commits()
    whole = bytes(80) + data
    missing_start = bytes(80) + bytes(512 - 80) + data[512 - 80 :]
    assert looks_torn(missing_start, 0, Stop.ZERO, 80)
    changed = bytearray(whole)
    changed[85] ^= 1
    assert not looks_torn(bytes(changed), 0, Stop.HEADER, 80)
    missing_payload = whole[:512] + bytes(512) + whole[1024:]
    assert looks_torn(missing_payload, 0, Stop.PAYLOAD, 80)
    changed = bytearray(whole)
    changed[600] ^= 1
    assert not looks_torn(bytes(changed), 0, Stop.PAYLOAD, 80)


def test_a_header_over_two_sectors_may_lose_either() -> None:
    position = 512 - 16
    data = bytearray(b"x" * position + b"h" * HEADER_BYTES + b"p" * 1000)
    assert not looks_torn(bytes(data), 0, Stop.HEADER, position)
    without_first = data[:position] + bytes(16) + data[512:]
    assert looks_torn(bytes(without_first), 0, Stop.HEADER, position)
    without_second = data[:512] + bytes(512) + data[1024:]
    assert looks_torn(bytes(without_second), 0, Stop.HEADER, position)


def test_a_record_that_is_valid_but_out_of_place_is_never_a_tear() -> None:
    data = bytes(1024)
    assert not looks_torn(data, 0, Stop.CHAIN, 80)
    assert not looks_torn(data, 0, Stop.ORDER, 80)


def test_a_file_that_ends_with_a_sector_lacks_the_next() -> None:
    data, _ = two_commits()
    assert looks_torn(data[: 512 - 80], 80, Stop.LENGTH, 80)
    assert not looks_torn(data[: 512 - 80 + 18], 80, Stop.LENGTH, 80), "no disk ends a write inside a sector"


def test_a_file_header_is_torn_when_its_whole_sector_is_missing() -> None:
    assert header_torn(bytes(512) + b"x")
    assert header_torn(b"")
    assert not header_torn(bytes(500) + b"x" + bytes(100))
