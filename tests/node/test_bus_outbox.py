"""What the bus refuses waits in order; what is for nobody is dropped."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.bus.datagram import Stream
from tocsin.bus.events import RoomAgain
from tocsin.model.limits import BUS_OUTBOX_BYTES_MAX, BUS_OUTBOX_MESSAGES_MAX
from tocsin.model.values import Bytes
from tocsin.node.bus_outbox import BusOutbox
from tocsin.runtime.datagrams import Address, group_in, to_node


class NarrowBus:
    def __init__(self) -> None:
        self.room = 0
        self.sent: list[tuple[Address, bytes, Stream]] = []

    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream = Stream.DATA) -> bool:
        if not self.room:
            return False
        self.room -= 1
        self.sent.append((address, b"".join(parts), stream))
        return True


HERE = group_in(1)


def test_the_order_is_kept_and_nothing_is_lost() -> None:
    bus = NarrowBus()
    outbox = BusOutbox(bus)
    for body in (b"1", b"2", b"3"):
        outbox.send(HERE, [body], Stream.DATA)
    assert outbox.is_blocked(1) and not outbox.is_blocked(2)
    bus.room = 2
    # There would be room now, but others wait.
    outbox.send(HERE, [b"4"], Stream.DATA)
    assert not bus.sent
    outbox.room_again(RoomAgain(HERE, Stream.DATA))
    assert [body for _, body, _ in bus.sent] == [b"1", b"2"]
    bus.room = 9
    outbox.room_again(RoomAgain(HERE, Stream.DATA))
    assert [body for _, body, _ in bus.sent] == [b"1", b"2", b"3", b"4"]
    assert not outbox.is_blocked(1)


def test_streams_do_not_wait_for_each_other() -> None:
    bus = NarrowBus()
    outbox = BusOutbox(bus)
    outbox.send(HERE, [b"data"], Stream.DATA)
    bus.room = 1
    outbox.send(HERE, [b"control"], Stream.CONTROL)
    assert [body for _, body, _ in bus.sent] == [b"control"]


def test_nobody_is_written_to_who_is_not_there() -> None:
    bus = NarrowBus()
    outbox = BusOutbox(bus)
    outbox.send(to_node(1, 7), [b"a"], Stream.DATA)
    assert outbox.dropped == 1 and not outbox.is_blocked(1)
    outbox.node_up(1, 7)
    outbox.send(to_node(1, 7), [b"b"], Stream.DATA)
    assert outbox.slow_nodes(1) == {7}
    outbox.node_gone(1, 7)
    assert outbox.dropped == 2 and not outbox.slow_nodes(1)


def test_what_waits_for_one_node_holds_up_nobody_else() -> None:
    bus = NarrowBus()
    outbox = BusOutbox(bus)
    outbox.node_up(1, 7)
    outbox.node_up(1, 8)
    outbox.send(to_node(1, 7), [b"a"], Stream.DATA)
    outbox.send(to_node(1, 8), [b"b"], Stream.CONTROL)
    assert not outbox.is_blocked(1) and outbox.slow_nodes(1) == {7} and not outbox.slow_nodes(2)
    bus.room = 1
    outbox.send(HERE, [b"c"], Stream.DATA)
    assert [body for _, body, _ in bus.sent] == [b"c"]


def test_a_node_for_which_too_much_waits_loses_all_of_it_and_begins_anew() -> None:
    bus = NarrowBus()
    outbox = BusOutbox(bus)
    outbox.node_up(1, 7)
    half = memoryview(bytes(BUS_OUTBOX_BYTES_MAX // 2))
    assert outbox.send(to_node(1, 7), [half], Stream.DATA) and outbox.send(to_node(1, 7), [half], Stream.DATA)
    assert not outbox.send(to_node(1, 7), [b"x"], Stream.DATA)
    assert outbox.dropped == 3 and not outbox.slow_nodes(1)
    bus.room = 1
    assert outbox.send(to_node(1, 7), [b"y"], Stream.DATA)
    assert [body for _, body, _ in bus.sent] == [b"y"]


def test_what_was_sent_makes_room_for_more() -> None:
    bus = NarrowBus()
    outbox = BusOutbox(bus)
    outbox.node_up(1, 7)
    half = memoryview(bytes(BUS_OUTBOX_BYTES_MAX // 2))
    for _ in range(4):
        assert outbox.send(to_node(1, 7), [half], Stream.DATA)
        bus.room = 1
        outbox.room_again(RoomAgain(to_node(1, 7), Stream.DATA))
    assert len(bus.sent) == 4 and not outbox.dropped


def test_what_waits_is_bounded() -> None:
    outbox = BusOutbox(NarrowBus())
    for _ in range(BUS_OUTBOX_MESSAGES_MAX):
        assert outbox.send(HERE, [b"x"], Stream.DATA)
    for _ in range(3):
        assert not outbox.send(HERE, [b"x"], Stream.DATA)
    assert outbox.dropped == 3
