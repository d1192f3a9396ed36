from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.model.strategies import text, values

from tocsin.model.errors import MessageFormatError, ProtocolError
from tocsin.model.limits import BLOCK_BYTES_MAX, FRAME_BYTES_MAX, RANGES_PER_FRAME_MAX, REASON_BYTES_MAX
from tocsin.model.ranges import merged
from tocsin.model.values import Bytes
from tocsin.wire import frames
from tocsin.wire.frames import (
    CONTROL,
    HEADER,
    OWN_POLICY,
    VERSION,
    Confirm,
    Credit,
    Deliver,
    Frame,
    FrameType,
    Outcome,
    Publish,
    Settle,
    Settled,
    control,
    signal,
)

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
blocks = st.binary(max_size=60)
span = st.tuples(u64, u64).map(lambda pair: (min(pair), max(pair)))

publishes = st.builds(Publish, u32, blocks)
confirms = st.builds(Confirm, u32, u32, u64, u64)
delivered = st.tuples(st.integers(0, 2**31), st.integers(2**31 + 1, 2**32 - 1), u32, u32)
delivers = st.builds(
    Deliver, u32, st.integers(0, 2**62), st.integers(0, 2**63 - 1), st.lists(delivered, max_size=8), blocks
)
grants = st.builds(Credit, u32, u64, u64)
settles = st.builds(
    Settle,
    u32,
    st.sampled_from(Outcome),
    u64,
    st.lists(span, max_size=8),
    st.none() | st.integers(0, OWN_POLICY - 1),
    text,
)
settleds = st.builds(Settled, u32, u64)


def joined(parts: bytes | list[Bytes]) -> bytes:
    return parts if isinstance(parts, bytes) else b"".join(parts)


def check_header(raw: bytes, kind: FrameType, session: int) -> bytes:
    """The payload of a single frame whose header is right."""
    assert HEADER.unpack_from(raw) == (len(raw) - HEADER.size, kind, VERSION, 0, session)
    return raw[HEADER.size :]


@given(publishes, u32)
def test_publish(frame: Publish, session: int) -> None:
    raw = joined(frames.write_publish(session, frame))
    assert frames.read_publish(check_header(raw, FrameType.PUBLISH, session)) == frame


@given(confirms, u32)
def test_confirm(frame: Confirm, session: int) -> None:
    raw = frames.write_confirm(session, frame)
    assert frames.read_confirm(check_header(raw, FrameType.CONFIRM, session)) == frame


@pytest.mark.parametrize(("offset", "span"), [(0, (3, 3)), (0, (4, 3)), (2**63 - 1, (0, 1)), (2**64 - 1, (0, 1))])
def test_a_delivery_of_nothing_or_past_all_offsets_is_refused(offset: int, span: tuple[int, int]) -> None:
    raw = joined(frames.write_deliver(1, Deliver(1, offset, 0, [(*span, 1, 0)], b"block")))
    with pytest.raises(ProtocolError, match="DELIVER"):
        frames.read_deliver(raw[HEADER.size :])


@given(delivers, u32)
def test_deliver(frame: Deliver, session: int) -> None:
    raw = joined(frames.write_deliver(session, frame))
    assert frames.read_deliver(check_header(raw, FrameType.DELIVER, session)) == frame


@given(grants, u32)
def test_credit(frame: Credit, session: int) -> None:
    raw = frames.write_credit(session, frame)
    assert frames.read_credit(check_header(raw, FrameType.CREDIT, session)) == frame


@given(settles, u32)
def test_settle(frame: Settle, session: int) -> None:
    raw = frames.write_settle(session, frame)
    read = frames.read_settle(check_header(raw, FrameType.SETTLE, session))
    assert read == replace(frame, ranges=merged(frame.ranges)), "what is named several times is settled once"


@given(settleds, u32)
def test_settled(frame: Settled, session: int) -> None:
    raw = frames.write_settled(session, frame)
    assert frames.read_settled(check_header(raw, FrameType.SETTLED, session)) == frame


@given(st.sampled_from(sorted(CONTROL)), u32, st.dictionaries(text, values, max_size=5))
def test_control_frames(kind: FrameType, session: int, fields: dict[str, Any]) -> None:
    try:
        raw = control(kind, session, fields)
    except MessageFormatError as error:
        # A char that is half of a surrogate pair is no field.
        assume("can't be written as UTF-8" not in str(error))
        raise
    payload = check_header(raw, kind, session)
    # Compared by their bytes, because a NaN among the values equals nothing.
    assert control(kind, session, Frame(kind, session, payload).fields()) == control(kind, session, fields)


@pytest.mark.parametrize("kind", [FrameType.PING, FrameType.PONG])
def test_signals_are_empty_and_of_the_connection(kind: FrameType) -> None:
    assert check_header(signal(kind), kind, 0) == b""


def test_control_and_fixed_frames_are_all_there_is() -> None:
    fixed = {FrameType.PUBLISH, FrameType.CONFIRM, FrameType.DELIVER, FrameType.CREDIT, FrameType.SETTLE,
             FrameType.SETTLED, FrameType.PING, FrameType.PONG}  # fmt: skip
    assert not CONTROL & fixed
    assert CONTROL | fixed == set(FrameType)


# ---- what is refused

READERS = {
    "publish": (frames.read_publish, joined(frames.write_publish(0, Publish(1, b"")))),
    "confirm": (frames.read_confirm, frames.write_confirm(0, Confirm(1, 2, 3, 4))),
    "deliver": (frames.read_deliver, joined(frames.write_deliver(0, Deliver(1, 2, 3, [(0, 1, 1, 0)], b"")))),
    "credit": (frames.read_credit, frames.write_credit(0, Credit(1, 2, 3))),
    "settle": (frames.read_settle, frames.write_settle(0, Settle(1, Outcome.NACK, 2, [(3, 4)], None, "why"))),
    "settled": (frames.read_settled, frames.write_settled(0, Settled(1, 2))),
}


@pytest.mark.parametrize("name", READERS)
def test_no_beginning_of_a_frame_is_a_frame(name: str) -> None:
    read, raw = READERS[name]
    payload = raw[HEADER.size :]
    read(payload)
    for size in range(len(payload)):
        with pytest.raises(ProtocolError):
            read(payload[:size])


@given(st.binary(max_size=120))
def test_garbage_is_read_or_refused(payload: bytes) -> None:
    for read, _ in READERS.values():
        try:
            read(payload)
        except ProtocolError:
            continue
    try:
        Frame(FrameType.REQUEST, 1, payload).fields()
    except ProtocolError as error:
        assert "REQUEST" in str(error)


def test_a_control_frame_without_a_map_is_refused() -> None:
    with pytest.raises(ProtocolError, match="HELLO"):
        Frame(FrameType.HELLO, 0, b"\x00").fields()
    with pytest.raises(MessageFormatError):
        control(FrameType.HELLO, 0, {"a": object()})


@pytest.mark.parametrize("outcome", [0, 6, 255])
def test_an_unknown_outcome_is_refused(outcome: int) -> None:
    payload = bytearray(READERS["settle"][1][HEADER.size :])
    payload[4] = outcome
    with pytest.raises(ProtocolError, match=f"outcome {outcome}"):
        frames.read_settle(bytes(payload))


def test_a_reason_that_is_too_long_is_refused() -> None:
    raw = frames.write_settle(0, Settle(1, Outcome.NACK, 1, [], None, "x" * REASON_BYTES_MAX))[HEADER.size :]
    assert len(frames.read_settle(raw).reason) == REASON_BYTES_MAX
    longer = raw[:6] + (REASON_BYTES_MAX + 1).to_bytes(2, "little") + raw[8:] + b"x"
    with pytest.raises(ProtocolError, match="longer than"):
        frames.read_settle(longer)


def test_a_range_that_runs_backwards_is_refused() -> None:
    raw = frames.write_settle(0, Settle(1, Outcome.ACKNOWLEDGE, 1, [(4, 5), (9, 8)]))
    with pytest.raises(ProtocolError, match="before it begins"):
        frames.read_settle(raw[HEADER.size :])


@pytest.mark.parametrize("count", [RANGES_PER_FRAME_MAX + 1, 2**32 - 1])
def test_too_many_ranges_are_refused_whatever_is_there(count: int) -> None:
    declared = count.to_bytes(4, "little")
    settle = bytearray(READERS["settle"][1][HEADER.size :])
    settle[20:24] = declared
    deliver = bytearray(READERS["deliver"][1][HEADER.size :])
    deliver[4:8] = declared
    for read, payload in ((frames.read_settle, settle), (frames.read_deliver, deliver)):
        with pytest.raises(ProtocolError, match="is the most"):
            read(bytes(payload))


def test_the_largest_delivery_fits_the_largest_frame() -> None:
    ranges = [(row, row + 1, 1, 0) for row in range(RANGES_PER_FRAME_MAX)]
    head, block = frames.write_deliver(1, Deliver(1, 0, 0, ranges, bytes(BLOCK_BYTES_MAX)))
    assert len(head) - HEADER.size + len(block) <= FRAME_BYTES_MAX
    assert len(frames.read_deliver(head[HEADER.size :]).ranges) == RANGES_PER_FRAME_MAX


# ---- what a writer makes of odd input


@pytest.mark.parametrize(
    ("delay", "sent"), [(None, None), (0, 0), (-5, 0), (OWN_POLICY, OWN_POLICY - 1), (2**40, OWN_POLICY - 1)]
)
def test_a_delay_is_kept_in_its_range(delay: int | None, sent: int | None) -> None:
    raw = frames.write_settle(0, Settle(1, Outcome.NACK, 1, [], delay))
    assert frames.read_settle(raw[HEADER.size :]).delay_ms == sent


@pytest.mark.parametrize(
    ("reason", "sent"),
    [
        ("x" * (REASON_BYTES_MAX + 1), "x" * REASON_BYTES_MAX),
        ("x" + "é" * REASON_BYTES_MAX, "x" + "é" * (REASON_BYTES_MAX // 2 - 1)),
        ("half \ud800", "half ?"),
    ],
)
def test_a_reason_is_shortened_by_whole_characters(reason: str, sent: str) -> None:
    raw = frames.write_settle(0, Settle(1, Outcome.NACK, 1, [(0, 1)], None, reason))
    assert frames.read_settle(raw[HEADER.size :]).reason == sent
