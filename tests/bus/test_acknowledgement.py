from __future__ import annotations

from math import inf

from tocsin.bus.acknowledgement import AcknowledgementSchedule
from tocsin.model.limits import BUS_ACKNOWLEDGE_BYTES, BUS_ACKNOWLEDGE_PACKETS


def test_the_first_packet_sets_the_time_and_the_next_ones_keep_it() -> None:
    schedule = AcknowledgementSchedule(0.5)
    assert schedule.due_at == inf
    assert schedule.received(10, 1, 1.0)
    assert not schedule.received(10, 1, 1.2)
    assert schedule.due_at == 1.5
    schedule.sent()
    assert schedule.due_at == inf


def test_many_bytes_or_packets_make_it_due_at_once() -> None:
    by_bytes, by_packets = AcknowledgementSchedule(0.5), AcknowledgementSchedule(0.5)
    by_bytes.received(BUS_ACKNOWLEDGE_BYTES - 1, 1, 1.0)
    assert by_bytes.due_at == 1.5
    assert by_bytes.received(1, 1, 1.1) and by_bytes.due_at == 1.1
    assert by_packets.received(1, BUS_ACKNOWLEDGE_PACKETS, 1.0) and by_packets.due_at == 1.0


def test_a_sender_that_seems_not_to_know_is_told_soon() -> None:
    schedule = AcknowledgementSchedule(0.5)
    schedule.soon(1.0)
    schedule.soon(1.2)
    assert schedule.due_at == 1.5
