from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.bus import fragments
from tocsin.bus.datagram import Malformed
from tocsin.bus.fragments import BEGIN, CHUNK, CHUNK_BYTES, END, WHOLE, Outbox, Reassembly
from tocsin.model.values import Bytes

CAPACITY = 100


def packets_of(messages: Sequence[Sequence[Bytes]], capacity: int = CAPACITY, count: int = 3) -> list[memoryview]:
    outbox = Outbox()
    for message in messages:
        outbox.add(message)
    packets = []
    while outbox:
        for parts, length in outbox.take(capacity, count):
            joined = b"".join(parts)
            assert len(joined) == length <= capacity
            packets.append(memoryview(joined))
    assert outbox.bytes == 0
    return packets


def messages_of(packets: Sequence[memoryview], *, skipping: bool = False) -> list[bytes]:
    done: list[Bytes] = []
    Reassembly(skipping=skipping).add(packets, done)
    return [bytes(each) for each in done]


def chunk(flags: int, content: bytes) -> memoryview:
    return memoryview(CHUNK.pack(flags | len(content)) + content)


@given(
    st.lists(st.lists(st.binary(max_size=400), max_size=3), max_size=12),
    st.integers(CHUNK_BYTES + 1, 300),
    st.integers(1, 7),
)
def test_messages_come_back_as_they_were(messages: list[list[bytes]], capacity: int, count: int) -> None:
    whole = [b"".join(parts) for parts in messages]
    assert messages_of(packets_of(messages, capacity, count)) == whole


def test_small_messages_share_a_packet() -> None:
    packets = packets_of([[b"a" * 20]] * 8)
    assert [len(packet) for packet in packets] == [4 * 24, 4 * 24]


def test_a_message_that_fits_is_not_split_and_not_copied() -> None:
    packets = packets_of([[b"a" * 50], [b"b" * 90]])
    assert [len(packet) for packet in packets] == [54, 94]
    done: list[Bytes] = []
    Reassembly(skipping=False).add(packets, done)
    assert [each.obj for each in done if isinstance(each, memoryview)] == [packet.obj for packet in packets]


def test_a_large_message_fills_the_room_that_is_left() -> None:
    packets = packets_of([[b"a" * 50], [b"b" * 500], [b"c" * 10]])
    assert [len(packet) for packet in packets[:-1]] == [CAPACITY] * (len(packets) - 1)


def test_the_outbox_knows_what_waits() -> None:
    outbox = Outbox()
    assert outbox.add([b"a" * 150, b"", b"b" * 50]) == 200
    assert (len(outbox), outbox.bytes) == (1, 200)
    outbox.take(CAPACITY, 1)
    assert (len(outbox), outbox.bytes) == (1, 104)
    outbox.clear()
    assert not outbox and outbox.bytes == 0 and outbox.take(CAPACITY, 5) == []
    outbox.add([b"c"])
    assert messages_of([memoryview(b"".join(parts)) for parts, _ in outbox.take(CAPACITY, 5)]) == [b"c"]


def test_after_a_loss_the_next_message_that_begins_is_the_first() -> None:
    packets = packets_of([[b"a" * 250], [b"b" * 250], [b"c"]])
    assert messages_of(packets[1:], skipping=True) == [b"b" * 250, b"c"]
    reassembly, done = Reassembly(skipping=False), list[Bytes]()
    reassembly.add(packets[:2], done)
    reassembly.skip()
    reassembly.add(packets[4:], done)
    assert done == [b"c"]


@pytest.mark.parametrize(
    "packets",
    [
        [chunk(0, b"middle")],
        [chunk(END, b"end")],
        [chunk(BEGIN, b"one"), chunk(BEGIN, b"two")],
        [chunk(BEGIN, b"one"), chunk(WHOLE, b"two")],
        [chunk(WHOLE, b"short")[:-1]],
        [memoryview(b"abc")],
    ],
    ids=["no begin", "only an end", "two begins", "whole inside", "cut", "no header"],
)
def test_chunks_that_do_not_follow_are_malformed(packets: list[memoryview]) -> None:
    with pytest.raises(Malformed):
        messages_of(packets)


def test_a_message_cannot_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "BUS_MESSAGE_BYTES_MAX", 1000)
    assert messages_of(packets_of([[b"a" * 1000]])) == [b"a" * 1000]
    with pytest.raises(Malformed, match="longer than any"):
        messages_of(packets_of([[b"a" * 1001]]))
