from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.bus.datagram import Malformed, Stream
from tocsin.bus.reports import (
    Acknowledged,
    Position,
    Request,
    Status,
    read_acknowledgements,
    read_request,
    read_status,
    write_acknowledgements,
    write_request,
    write_status,
)
from tocsin.model.limits import (
    BUS_DATAGRAM_BYTES_MIN,
    BUS_MEMBERS_MAX,
    BUS_NAK_PACKETS_MAX,
    BUS_NAK_RANGES_MAX,
    BUS_WINDOW_PACKETS,
)
from tocsin.runtime.datagrams import Way

STATUS = Status(
    False,
    [Position(Stream.CONTROL, 5, 2, 4), Position(Stream.DATA, BUS_WINDOW_PACKETS, 1, 0)],
    (7, 2**64 - 1),
)
ACKNOWLEDGED = [Acknowledged(Way.IN, Stream.DATA, 7), Acknowledged(Way.NODE, Stream.CONTROL, 0)]
REQUEST = Request(Way.OUT, Stream.DATA, [(3, 3), (5, 9)])


def test_reports_come_back_as_they_were() -> None:
    assert read_status(write_status(STATUS)) == STATUS
    leaving = Status(True, [], ())
    assert read_status(write_status(leaving)) == leaving
    assert read_acknowledgements(write_acknowledgements(ACKNOWLEDGED)) == ACKNOWLEDGED
    assert read_request(write_request(REQUEST)) == REQUEST


def test_the_largest_reports_fit_the_smallest_datagram() -> None:
    heard = range(1, BUS_MEMBERS_MAX + 1)
    ranges = [(number, number) for number in range(BUS_NAK_RANGES_MAX)]
    assert len(write_status(Status(False, STATUS.positions, heard))) < BUS_DATAGRAM_BYTES_MIN - 100
    assert len(write_request(Request(Way.IN, Stream.DATA, ranges))) < BUS_DATAGRAM_BYTES_MIN - 100


@pytest.mark.parametrize(
    ("high", "low", "released"),
    [(5, 0, 4), (5, 7, 5), (5, 3, 1), (5, 1, 6), (BUS_WINDOW_PACKETS + 1, 1, 0), (2**64 - 1, 1, 0)],
    ids=["low from 1", "low after all", "released before low", "released after high", "one too many", "far too many"],
)
def test_positions_that_contradict_each_other_are_refused(high: int, low: int, released: int) -> None:
    with pytest.raises(Malformed):
        read_status(write_status(Status(False, [Position(Stream.DATA, high, low, released)], ())))


@pytest.mark.parametrize(
    "ranges",
    [[(1, BUS_NAK_PACKETS_MAX + 1)], [(0, 2**64 - 1)], [(5, 9), (9, 12)], [(5, 9), (1, 2)], [(5, 5)] * 64],
    ids=["too many", "everything", "twice", "falling", "the same"],
)
def test_a_request_for_more_than_any_receiver_asks_for_is_refused(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(Malformed):
        read_request(write_request(Request(Way.IN, Stream.DATA, ranges)))


def test_unknown_ways_and_streams_and_backward_ranges_are_refused() -> None:
    with pytest.raises(Malformed):
        read_request(write_request(Request(Way.IN, Stream.DATA, [(4, 3)])))
    with pytest.raises(Malformed):
        read_request(write_request(Request(Way.IN, Stream.DATA, [])))
    for at, value in ((0, 9), (1, 9)):
        for whole in (write_request(REQUEST), write_acknowledgements(ACKNOWLEDGED)):
            changed = bytearray(whole)
            changed[at] = value
            with pytest.raises(Malformed):
                (read_request if whole == write_request(REQUEST) else read_acknowledgements)(bytes(changed))


@pytest.mark.parametrize(
    ("read", "whole"),
    [
        (read_status, write_status(STATUS)),
        (read_acknowledgements, write_acknowledgements(ACKNOWLEDGED)),
        (read_request, write_request(REQUEST)),
    ],
)
def test_a_report_of_another_length_is_refused(read: Callable[[bytes], object], whole: bytes) -> None:
    for cut in range(len(whole)):
        if read is read_acknowledgements and cut and cut % 16 == 0:
            continue
        with pytest.raises(Malformed):
            read(whole[:cut])
    with pytest.raises(Malformed):
        read(whole + b"\0")


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_read_but_never_crashes(content: bytes) -> None:
    for read in (read_status, read_acknowledgements, read_request):
        try:
            read(content)
        except Malformed:
            continue
