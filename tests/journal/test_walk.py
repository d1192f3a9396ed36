"""Reading around damage."""

from __future__ import annotations

from tocsin.journal.record import RecordEncoder
from tocsin.journal.scan import Stop
from tocsin.journal.segment import SEGMENT_FLAVOUR, FileHeader, Identity
from tocsin.journal.walk import BadPlace, FileEnd, Readable, walk
from tocsin.testing.disk import SimulatedDisk, SimulatedFile

HEADER = FileHeader(Identity(b"j" * 16, b"s" * 16), SEGMENT_FLAVOUR, 1)


def segment(commits: list[list[bytes]], *, sealed: bool) -> SimulatedFile:
    file = SimulatedDisk().create("segment", 4096)
    file.write(0, [HEADER.encode()])
    position, chain, lsn = 80, HEADER.chain(), 0
    for number, payloads in enumerate(commits):
        encoder = RecordEncoder(HEADER.seed(), chain, position)
        for data in payloads:
            lsn += 1
            encoder.add(1, 0, lsn, [data])
        encoder.add_barrier(lsn, last=sealed and number == len(commits) - 1)
        file.write(position, encoder.parts)
        position, chain = encoder.position, encoder.chain
    return file


def lsns(pieces: list[Readable | BadPlace | FileEnd]) -> list[int]:
    return [record[0] for piece in pieces if isinstance(piece, Readable) for record in piece.records]


def test_a_whole_file() -> None:
    pieces = list(walk(segment([[b"a", b"b"], [b"c"]], sealed=True), HEADER))
    assert lsns(pieces) == [1, 2, 3]
    assert pieces[-1] == FileEnd(80 + 3 * 48 + 2 * 40, 3, 3, True)
    assert [piece.positions for piece in pieces if isinstance(piece, Readable)] == [[80, 128, 216]]


def test_damage_in_the_middle() -> None:
    file = segment([[b"a", b"b", b"c"], [b"d"]], sealed=False)
    file.write(128 + 42, [b"?"])
    pieces = list(walk(file, HEADER))
    assert lsns(pieces) == [1, 3, 4]
    assert [piece for piece in pieces if isinstance(piece, BadPlace)] == [
        BadPlace(128, 176, 1, Stop.PAYLOAD, torn=False)
    ]


def test_a_bad_place_at_the_end() -> None:
    file = segment([[b"a"]], sealed=False)
    file.write(1000, [b"garbage"])
    pieces = list(walk(file, HEADER))
    assert [piece for piece in pieces if isinstance(piece, BadPlace)] == [BadPlace(168, 1007, 1, Stop.ZERO, torn=True)]
    assert isinstance(pieces[-1], FileEnd)
