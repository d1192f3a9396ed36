"""The checker finds what it is there to find."""

from __future__ import annotations

import pytest

from tocsin.bus.machine import Delivered, LostSync, Stream, Synced, group_in
from tocsin.testing.bus_cluster import BrokenPromise, DeliveryChecker, numbered_message

FROM = (1, 1, group_in(1), Stream.DATA)


def delivered(number: int, length: int = 20) -> Delivered:
    return Delivered(*FROM, numbered_message(number, length))


def test_order_is_fine() -> None:
    checker = DeliveryChecker()
    for number in (1, 2, 3):
        checker.see(delivered(number))
    assert checker.received == {FROM: [1, 2, 3]}


@pytest.mark.parametrize("numbers", [(1, 1), (1, 2, 1), (2,), (1, 3)], ids=["twice", "back", "late start", "gap"])
def test_anything_else_is_not(numbers: tuple[int, ...]) -> None:
    checker = DeliveryChecker()
    with pytest.raises(BrokenPromise):
        for number in numbers:
            checker.see(delivered(number))


def test_a_gap_that_was_told_is_allowed_once() -> None:
    checker = DeliveryChecker()
    checker.see(delivered(1))
    checker.see(LostSync(*FROM, first=2, resumed=5))
    checker.see(delivered(5))
    with pytest.raises(BrokenPromise):
        checker.see(delivered(7))


def test_a_loss_does_not_excuse_a_repetition_nor_another_stream() -> None:
    checker = DeliveryChecker()
    checker.see(delivered(3 - 2))
    checker.see(LostSync(*FROM, first=2, resumed=5))
    with pytest.raises(BrokenPromise):
        checker.see(delivered(1))
    checker = DeliveryChecker()
    checker.see(LostSync(1, 1, group_in(2), Stream.DATA, first=2, resumed=5))
    with pytest.raises(BrokenPromise):
        checker.see(delivered(5))


def test_a_loss_of_nothing_is_none() -> None:
    with pytest.raises(BrokenPromise):
        DeliveryChecker().see(LostSync(*FROM, first=2, resumed=2))


def test_a_stream_may_be_joined_under_way_but_not_skip_its_begin() -> None:
    checker = DeliveryChecker()
    checker.see(Synced(*FROM, first=9))
    checker.see(delivered(30))
    checker = DeliveryChecker()
    checker.see(Synced(*FROM, first=1))
    with pytest.raises(BrokenPromise):
        checker.see(delivered(2))


def test_other_bytes_are_noticed() -> None:
    with pytest.raises(BrokenPromise, match="other bytes"):
        DeliveryChecker().see(Delivered(*FROM, numbered_message(1, 20)[:-1] + b"!"))
