from __future__ import annotations

from tocsin.bus.flow_control import CongestionWindow, TokenBucket


def test_losses_halve_the_window_once_per_recovery_and_not_below_the_floor() -> None:
    window = CongestionWindow(100, 1000, recovery_seconds=1.0)
    window.lost(10.0)
    window.lost(10.9)
    assert window.bytes == 500
    for second in range(11, 20):
        window.lost(float(second))
    assert window.bytes == 100


def test_what_arrives_gives_the_window_back_up_to_its_size() -> None:
    window = CongestionWindow(100, 1000, recovery_seconds=1.0)
    window.lost(1.0)
    window.released(500)
    assert 540 < window.bytes < 560
    for _ in range(100):
        window.released(500)
    assert window.bytes == 1000


def test_a_bucket_allows_its_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(per_second=10, burst=20)
    assert bucket.take(20, 100.0)
    assert not bucket.take(1, 100.0)
    assert bucket.ready_at(5) == 100.5
    assert not bucket.take(5, 100.4)
    assert bucket.take(5, 100.5)
    assert bucket.take(20, 200.0)
    assert not bucket.take(1, 200.0)


def test_what_is_larger_than_the_bucket_goes_when_it_is_full_and_is_paid_back() -> None:
    bucket = TokenBucket(per_second=10, burst=20)
    assert bucket.take(50, 1.0)
    assert not bucket.take(1, 3.5)
    assert bucket.take(1, 4.5)


def test_time_that_goes_back_fills_nothing() -> None:
    bucket = TokenBucket(per_second=10, burst=10)
    assert bucket.take(10, 100.0)
    assert not bucket.take(1, 50.0)
    assert not bucket.take(1, 100.05)
    assert bucket.take(1, 100.2)
