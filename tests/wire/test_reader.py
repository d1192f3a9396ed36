from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.errors import ProtocolError
from tocsin.model.limits import FRAME_BYTES_BEFORE_LOGIN, FRAME_BYTES_MAX, MIB
from tocsin.wire.frames import HEADER, VERSION, FrameType
from tocsin.wire.reader import FrameReader

Plain = tuple[FrameType, int, bytes]

plain_frames = st.tuples(st.sampled_from(FrameType), st.integers(0, 2**32 - 1), st.binary(max_size=40))


def encode(kind: int, session: int, payload: bytes, version: int = VERSION) -> bytes:
    return HEADER.pack(len(payload), kind, version, 0, session) + payload


def feed(reader: FrameReader, chunks: list[bytes]) -> list[Plain]:
    return [(each.type, each.session, bytes(each.payload)) for chunk in chunks for each in reader.feed(chunk)]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(places), len(stream)]
    return [stream[start:end] for start, end in pairwise(bounds)]


@given(st.lists(plain_frames, max_size=8), st.data())
def test_any_split_gives_the_same_frames(sent: list[Plain], data: st.DataObject) -> None:
    stream = b"".join(encode(*each) for each in sent)
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    reader = FrameReader()
    assert feed(reader, cut(stream, places)) == sent
    assert reader.waiting == 0


@given(st.lists(plain_frames, min_size=1, max_size=4))
def test_byte_by_byte_each_frame_comes_with_its_last_byte(sent: list[Plain]) -> None:
    reader = FrameReader()
    for kind, session, payload in sent:
        *before, last = encode(kind, session, payload)
        assert feed(reader, [bytes([byte]) for byte in before]) == []
        assert reader.waiting == len(before)
        assert feed(reader, [bytes([last])]) == [(kind, session, payload)]


@given(st.lists(plain_frames, max_size=4), plain_frames, st.data())
def test_what_is_not_complete_waits(sent: list[Plain], last: Plain, data: st.DataObject) -> None:
    stream = b"".join(encode(*each) for each in sent)
    end = encode(*last)
    missing = data.draw(st.integers(1, len(end)))
    reader = FrameReader()
    assert feed(reader, [stream + end[:-missing]]) == sent
    assert reader.waiting == len(end) - missing
    assert feed(reader, [end[-missing:]]) == [last]


def test_frames_stay_as_they_were_while_later_ones_arrive() -> None:
    reader = FrameReader()
    held = []
    stream = b"".join(encode(FrameType.PUBLISH, number, b"%03d" % number * 10) for number in range(100))
    for start in range(0, len(stream), 37):
        held += reader.feed(stream[start : start + 37])
    assert [bytes(each.payload) for each in held] == [b"%03d" % number * 10 for number in range(100)]


def test_a_frame_within_a_chunk_is_not_copied() -> None:
    chunk = encode(FrameType.PUBLISH, 1, b"payload")
    (frame,) = FrameReader().feed(chunk)
    assert isinstance(frame.payload, memoryview)
    assert frame.payload.obj is chunk


def test_only_a_frame_that_spans_chunks_is_copied() -> None:
    stream = b"".join(encode(FrameType.DELIVER, number, b"%d" % number * 1_000) for number in range(4))
    reader = FrameReader()
    chunks = [stream[:1_500], stream[1_500:]]
    frames = [frame for chunk in chunks for frame in reader.feed(chunk)]
    whose = [frame.payload.obj for frame in frames if isinstance(frame.payload, memoryview)]
    assert whose[0] is chunks[0] and whose[2] is whose[3] is chunks[1]
    assert isinstance(whose[1], bytes) and len(whose[1]) == 1_000


def test_a_payload_that_comes_alone_is_not_copied() -> None:
    """As it does when what is `wanted` is read next."""
    payload = bytes(100_000)
    stream = encode(FrameType.PUBLISH, 7, payload)
    reader = FrameReader()
    reader.logged_in()
    assert reader.wanted == HEADER.size
    assert reader.feed(stream[:5]) == []
    assert reader.wanted == HEADER.size - 5
    assert reader.feed(stream[5 : HEADER.size]) == []
    assert reader.wanted == len(payload)
    (frame,) = reader.feed(payload)
    assert isinstance(frame.payload, memoryview) and frame.payload.obj is payload
    assert (frame.session, reader.wanted) == (7, HEADER.size)


def test_of_a_chunk_no_more_stays_than_twice_what_is_kept() -> None:
    reader = FrameReader()
    reader.logged_in()
    whole, begun = encode(FrameType.PUBLISH, 1, bytes(200_000)), encode(FrameType.PUBLISH, 1, bytes(10_000))
    tracemalloc.start()
    try:
        frames = reader.feed(whole + begun[:5_000])
        assert len(frames) == 1
        del frames
        assert tracemalloc.get_traced_memory()[0] < 20_000
    finally:
        tracemalloc.stop()
    assert feed(reader, [begun[5_000:]]) == [(FrameType.PUBLISH, 1, bytes(10_000))]


def test_empty_chunks_mean_nothing() -> None:
    reader = FrameReader()
    assert reader.feed(b"") == []
    first, rest = encode(FrameType.PING, 0, b"")[:5], encode(FrameType.PING, 0, b"")[5:]
    assert feed(reader, [first, b"", rest, b""]) == [(FrameType.PING, 0, b"")]


# ---- what is refused


@pytest.mark.parametrize("kind", [0, len(FrameType) + 1, 255])
def test_an_unknown_type_is_refused(kind: int) -> None:
    with pytest.raises(ProtocolError, match=f"type {kind}"):
        FrameReader().feed(encode(kind, 0, b""))


@pytest.mark.parametrize("version", [0, VERSION + 1, 255])
def test_another_version_is_refused_before_anything_else(version: int) -> None:
    with pytest.raises(ProtocolError, match=f"version {version}"):
        FrameReader().feed(HEADER.pack(2**32 - 1, 200, version, 0, 0))


def test_before_login_frames_are_small() -> None:
    reader = FrameReader()
    largest = encode(FrameType.HELLO, 0, bytes(FRAME_BYTES_BEFORE_LOGIN))
    assert len(feed(reader, [largest])) == 1
    with pytest.raises(ProtocolError, match=str(FRAME_BYTES_BEFORE_LOGIN)):
        reader.feed(HEADER.pack(FRAME_BYTES_BEFORE_LOGIN + 1, FrameType.HELLO, VERSION, 0, 0))


def test_after_login_frames_are_bounded_too() -> None:
    reader = FrameReader()
    reader.logged_in()
    assert reader.feed(HEADER.pack(FRAME_BYTES_MAX, FrameType.PUBLISH, VERSION, 0, 0)) == []
    reader = FrameReader()
    reader.logged_in()
    with pytest.raises(ProtocolError, match=str(FRAME_BYTES_MAX)):
        reader.feed(HEADER.pack(FRAME_BYTES_MAX + 1, FrameType.PUBLISH, VERSION, 0, 0))


def test_a_frame_that_began_before_login_goes_on_after_it() -> None:
    reader = FrameReader()
    small = encode(FrameType.REQUEST, 1, b"x" * 100)
    assert reader.feed(small[:50]) == []
    reader.logged_in()
    assert feed(reader, [small[50:] + encode(FrameType.PUBLISH, 1, bytes(10_000))]) == [
        (FrameType.REQUEST, 1, b"x" * 100),
        (FrameType.PUBLISH, 1, bytes(10_000)),
    ]


def test_the_header_is_judged_before_the_payload_arrives() -> None:
    reader = FrameReader()
    head = HEADER.pack(1, 99, VERSION, 0, 0)
    assert reader.feed(head[:-1]) == []
    with pytest.raises(ProtocolError):
        reader.feed(head[-1:])


# ---- memory


def growth(reader: FrameReader, chunks: Iterable[bytes]) -> int:
    """The most that the reader had allocated while it was fed."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for chunk in chunks:
            reader.feed(chunk)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_a_declared_length_allocates_nothing() -> None:
    reader = FrameReader(30 * MIB)
    head = HEADER.pack(30 * MIB, FrameType.PUBLISH, VERSION, 0, 0)
    single = [bytes([byte]) for byte in head + bytes(2_000)]
    assert growth(reader, single) < 16_384
    assert reader.waiting == len(single)


def test_small_chunks_cost_their_bytes() -> None:
    reader = FrameReader(30 * MIB)
    reader.feed(HEADER.pack(30 * MIB, FrameType.PUBLISH, VERSION, 0, 0))
    # Each chunk is an object of its own, which is gone when the reader has taken its bytes.
    assert growth(reader, (bytes(3) for _ in range(40_000))) < 2 * 120_000
    assert reader.waiting == HEADER.size + 120_000


def test_a_large_frame_is_held_about_once() -> None:
    size = 4 * MIB
    reader = FrameReader(size)
    chunks = cut(encode(FrameType.PUBLISH, 1, bytes(size)), list(range(65_536, size, 65_536)))
    assert growth(reader, chunks) < 2.5 * size
    assert reader.waiting == 0
