from __future__ import annotations

from tocsin.bus.fragments import PacketParts
from tocsin.bus.send_window import SendWindow, WindowSize

PACED = WindowSize(8, 1000, history_bytes=200, overwrites=False)
NEVER_WAITS = WindowSize(8, 1000, history_bytes=1000, overwrites=True)


def packet(length: int = 100) -> PacketParts:
    return [bytes(length)], length


def filled(size: WindowSize, count: int, counted: tuple[int, ...] = (1, 2), length: int = 100) -> SendWindow:
    window = SendWindow(size, counted)
    for _ in range(count):
        window.add([packet(length)])
    return window


def test_packets_get_their_place_and_are_found_by_it() -> None:
    window = SendWindow(PACED, [1])
    packets = [packet(length) for length in (10, 20, 30)]
    assert window.add(packets[:2]) == 1
    assert window.add(packets[2:]) == 3
    assert [window.packet(number) for number in range(5)] == [None, *packets, None]


def test_what_all_that_count_have_acknowledged_is_released() -> None:
    window = filled(PACED, 4)
    assert window.acknowledge(1, 3) == 0
    assert window.released == 0
    assert window.acknowledge(2, 2) == 200
    assert (window.released, window.in_flight, window.bytes_in_flight) == (2, 2, 200)
    assert window.behind() == [2]


def test_an_observer_neither_releases_nor_holds_back() -> None:
    window = filled(PACED, 4)
    assert window.acknowledge(7, 4) == 0
    window.acknowledge(1, 4)
    window.acknowledge(2, 4)
    assert window.released == 4 and window.behind() == []


def test_released_packets_stay_for_others_within_the_history() -> None:
    window = filled(PACED, 5, counted=(1,))
    window.acknowledge(1, 5)
    assert (window.low, window.bytes_history) == (4, 200)
    assert window.packet(3) is None and window.packet(4) is not None


def test_room_ends_with_bytes_or_packets_in_flight() -> None:
    by_bytes = filled(PACED, 3, length=300)
    assert by_bytes.room(10_000, 300) == 1
    assert by_bytes.room(900, 300) == 0
    by_packets = filled(PACED, 8, length=1)
    assert by_packets.room(10_000, 1) == 0
    by_packets.acknowledge(1, 3)
    by_packets.acknowledge(2, 3)
    assert by_packets.room(10_000, 1) == 3
    for _ in range(3):
        by_packets.add([packet(1)])
    assert by_packets.packet(4) is not None and by_packets.packet(3) is None


def test_acknowledgements_only_go_forward_and_not_beyond_what_was_sent() -> None:
    window = filled(PACED, 4, counted=(1,))
    window.acknowledge(1, 3)
    assert window.acknowledge(1, 2) == 0
    assert window.acknowledge(1, 9) == 0
    assert window.released == 3


def test_a_member_that_begins_to_count_is_waited_for() -> None:
    window = filled(PACED, 3, counted=(1,))
    window.acknowledge(1, 2)
    window.count([1, 5])
    window.acknowledge(1, 3)
    assert window.released == 2 and window.behind() == [5]
    window.acknowledge(5, 2)
    assert window.released == 2
    assert window.acknowledge(5, 3) == 100


def test_a_member_that_no_longer_counts_is_not_waited_for() -> None:
    window = filled(PACED, 3)
    window.acknowledge(1, 3)
    assert window.count([1]) == 300
    assert window.count([]) == 0 and window.released == 3


def test_without_members_that_count_everything_is_released_at_once() -> None:
    window = filled(PACED, 30, counted=())
    assert window.in_flight == 0 and window.low == 29 and window.room(1000, 100) == 8


def test_the_next_incarnation_of_a_member_begins_without_a_position() -> None:
    window = filled(PACED, 3, counted=(1,))
    window.acknowledge(1, 2)
    window.forget(1)
    window.add([packet()])
    assert window.acknowledge(1, 0) == 0
    assert window.released == 2
    assert window.acknowledge(1, 4) == 200


def test_a_window_that_never_waits_gives_up_the_oldest() -> None:
    window = filled(NEVER_WAITS, 20, length=1)
    assert (window.low, window.released, window.high) == (13, 12, 20)
    assert window.room(0, 1) > 0
    large = filled(NEVER_WAITS, 5, length=400)
    assert (large.low, large.bytes_in_flight) == (4, 800)


def test_what_is_abandoned_is_gone_but_still_counted() -> None:
    window = filled(PACED, 3)
    window.abandon()
    assert (window.low, window.released, window.high) == (4, 3, 3)
    assert window.bytes_in_flight == window.bytes_history == 0
    assert window.add([packet()]) == 4


def test_a_stream_that_goes_on_goes_on_counting() -> None:
    window = SendWindow(PACED, [1], after=41)
    assert window.add([packet()]) == 42
    assert window.low == 42 and window.packet(41) is None
