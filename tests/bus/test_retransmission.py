from __future__ import annotations

from tocsin.bus.flow_control import TokenBucket
from tocsin.bus.retransmission import Retransmission
from tocsin.bus.send_window import SendWindow, WindowSize
from tocsin.model.limits import BUS_NAK_PACKETS_MAX

SIZE = WindowSize(8, 10_000, history_bytes=0, overwrites=False)


def sender(count: int = 6) -> SendWindow:
    window = SendWindow(SIZE, [1])
    window.add([([b"x" * 100], 100)] * count)
    return window


def resending(rate: int = 1_000_000, burst: int = 1_000_000) -> Retransmission:
    return Retransmission(TokenBucket(rate, burst), repeat_seconds=0.5)


def sent_again(resend: Retransmission, window: SendWindow, now: float) -> list[int]:
    found = []
    while packet := resend.next(window, now):
        found.append(packet[0])
    return found


def test_what_is_asked_for_is_sent_again_in_that_order() -> None:
    resend, window = resending(), sender()
    assert not resend.ask(5, 6, window, 1.0)
    assert not resend.ask(2, 3, window, 1.0)
    assert sent_again(resend, window, 1.0) == [5, 6, 2, 3]
    assert not resend


def test_a_packet_is_not_repeated_within_a_short_time() -> None:
    resend, window = resending(), sender()
    resend.ask(2, 2, window, 1.0)
    resend.ask(2, 2, window, 1.0)
    assert sent_again(resend, window, 1.0) == [2]
    resend.ask(2, 3, window, 1.4)
    assert sent_again(resend, window, 1.4) == [3]
    assert resend.suppressed == 1
    resend.ask(2, 3, window, 1.5)
    assert sent_again(resend, window, 1.5) == [2]


def test_who_asks_for_what_is_gone_is_found_out() -> None:
    resend, window = resending(), sender()
    window.acknowledge(1, 3)
    assert resend.ask(2, 4, window, 1.0)
    assert sent_again(resend, window, 1.0) == [4]
    assert not resend.ask(90, 95, window, 1.0)
    assert not resend


def test_what_is_released_meanwhile_is_not_sent_again() -> None:
    resend, window = resending(), sender()
    resend.ask(1, 4, window, 1.0)
    window.acknowledge(1, 3)
    assert sent_again(resend, window, 1.0) == [4]


def test_the_rate_holds() -> None:
    resend, window = resending(rate=100, burst=200), sender()
    resend.ask(1, 4, window, 1.0)
    assert sent_again(resend, window, 1.0) == [1, 2]
    assert resend and resend.ready_at(window) == 2.0
    assert sent_again(resend, window, 1.9) == []
    assert sent_again(resend, window, 2.0) == [3]


def test_a_request_without_measure_costs_little() -> None:
    resend, window = resending(), sender()
    resend.ask(1, 2**60, window, 1.0)
    assert sent_again(resend, window, 1.0) == [1, 2, 3, 4, 5, 6]
    assert BUS_NAK_PACKETS_MAX < 2**60
