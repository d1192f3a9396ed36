"""What nodes tell each other about their streams: status, acknowledgements, requests for what is missing.

Little-endian.

STATUS, the heartbeat of an address; to one node only while that one has not acknowledged everything
    0   1  flags     1: the sender is leaving
    1   1  streams   s
    2   2  heard     h
    4   4  reserved  0
    8   .  s times   stream u64, high u64 (last packet sent), low u64 (first one still there), released u64 (up to
                     this packet all members that count have acknowledged); high is less than BUS_WINDOW_PACKETS beyond
                     low, since no window holds more
    .   .  h times   salt u64 of an incarnation that the sender hears on this channel: who finds its own one knows that
                     the sender hears it, and that this is no recording

ACKNOWLEDGEMENT, to the sender of the streams
    0   .  n times   way u8, stream u8, reserved u16 and u32, position u64 (received up to and with this packet)

REQUEST, to the sender of the stream
    0   1  way       of the stream
    1   1  stream
    2   2  ranges    r
    4   4  reserved  0
    8   .  r times   first u64, last u64, rising; BUS_NAK_PACKETS_MAX packets at most in all
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tocsin.bus.datagram import Malformed, Stream
from tocsin.model.limits import BUS_MEMBERS_MAX, BUS_NAK_PACKETS_MAX, BUS_NAK_RANGES_MAX, BUS_WINDOW_PACKETS
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import Way

_STATUS = struct.Struct("<BBHI")
_STREAM = struct.Struct("<QQQQ")
_SALT_BYTES = 8
_ACKNOWLEDGEMENT = struct.Struct("<BBHIQ")
_REQUEST = struct.Struct("<BBHI")
_RANGE = struct.Struct("<QQ")
_LEAVING = 1
_STREAMS = {stream.value: stream for stream in Stream}
_WAYS = {way.value: way for way in Way}


class Position(NamedTuple):
    """Where a sender stands with one stream."""

    stream: Stream
    high: int
    low: int
    released: int


class Status(NamedTuple):
    leaving: bool
    positions: Sequence[Position]
    heard: Sequence[int]
    """Salts of incarnations."""


class Acknowledged(NamedTuple):
    way: Way
    stream: Stream
    position: int


class Request(NamedTuple):
    way: Way
    stream: Stream
    ranges: Sequence[tuple[int, int]]


def write_status(status: Status) -> bytes:
    parts = [_STATUS.pack(_LEAVING if status.leaving else 0, len(status.positions), len(status.heard), 0)]
    parts += [_STREAM.pack(*position) for position in status.positions]
    parts.append(struct.pack(f"<{len(status.heard)}Q", *status.heard))
    return b"".join(parts)


def read_status(content: Bytes) -> Status:
    _expect(len(content) >= _STATUS.size)
    flags, streams, heard, reserved = _STATUS.unpack_from(content)
    middle = _STATUS.size + streams * _STREAM.size
    _expect(flags <= _LEAVING and not reserved and streams <= len(Stream) and heard <= BUS_MEMBERS_MAX)
    _expect(len(content) == middle + heard * _SALT_BYTES)
    positions = []
    for number, high, low, released in _STREAM.iter_unpack(content[_STATUS.size : middle]):
        _expect(number in _STREAMS and 1 <= low <= high + 1 and low <= released + 1 and released <= high)
        _expect(high - low < BUS_WINDOW_PACKETS)
        positions.append(Position(_STREAMS[number], high, low, released))
    return Status(flags == _LEAVING, positions, struct.unpack_from(f"<{heard}Q", content, middle))


def write_acknowledgements(acknowledged: Iterable[Acknowledged]) -> bytes:
    return b"".join([_ACKNOWLEDGEMENT.pack(way, stream, 0, 0, position) for way, stream, position in acknowledged])


def read_acknowledgements(content: Bytes) -> list[Acknowledged]:
    _expect(0 < len(content) <= len(Way) * len(Stream) * _ACKNOWLEDGEMENT.size)
    _expect(len(content) % _ACKNOWLEDGEMENT.size == 0)
    found = []
    for way, stream, _, _, position in _ACKNOWLEDGEMENT.iter_unpack(content):
        _expect(way in _WAYS and stream in _STREAMS)
        found.append(Acknowledged(_WAYS[way], _STREAMS[stream], position))
    return found


def write_request(request: Request) -> bytes:
    parts = [_REQUEST.pack(request.way, request.stream, len(request.ranges), 0)]
    parts += [_RANGE.pack(first, last) for first, last in request.ranges]
    return b"".join(parts)


def read_request(content: Bytes) -> Request:
    _expect(len(content) >= _REQUEST.size)
    way, stream, count, _ = _REQUEST.unpack_from(content)
    _expect(way in _WAYS and stream in _STREAMS and 0 < count <= BUS_NAK_RANGES_MAX)
    _expect(len(content) == _REQUEST.size + count * _RANGE.size)
    ranges = list(_RANGE.iter_unpack(content[_REQUEST.size :]))
    wanted, before = 0, -1
    for first, last in ranges:
        _expect(before < first <= last)
        wanted, before = wanted + last - first + 1, last
    _expect(wanted <= BUS_NAK_PACKETS_MAX)
    return Request(_WAYS[way], _STREAMS[stream], ranges)


def _expect(true: bool) -> None:
    if not true:
        raise Malformed("A report that no node of this version would send.")
