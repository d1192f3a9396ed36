"""The checks that make a run worth something, on messages from a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

import tocsin
from tocsin.cli.bench.bodies import numbered
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.roles.consuming import take_in_order, take_with_properties


@dataclass
class Received:
    body: bytes
    properties: dict[str, Any] = field(default_factory=dict)


def received(*numbers: int) -> list[tocsin.Message]:
    bodies = list(numbered(10, 32))
    regions = ("EU", "US", "ASIA")
    return cast(
        "list[tocsin.Message]",
        [Received(bodies[number], {"region": regions[number % 3], "amount": number}) for number in numbers],
    )


@pytest.mark.parametrize("take", [take_in_order, take_with_properties])
@pytest.mark.parametrize(
    ("numbers", "complaint"),
    [
        ((0, 1, 3), "Messages 2 to 2 are missing: 3 came instead."),
        ((0, 1, 1, 2), "Message 1 came again where 2 was due."),
        ((1, 0, 2), "Messages 0 to 0 are missing"),
        ((0, 1), "The messages ended after number 1; 3 were due."),
        ((), "The messages ended after number None"),
    ],
)
def test_a_run_with_a_fault_fails(take: Any, numbers: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(BenchFailed, match=complaint):
        take(received(*numbers), numbered(3, 32), 3)


@pytest.mark.parametrize("take", [take_in_order, take_with_properties])
def test_a_run_without_a_fault_takes_no_message_too_many(take: Any) -> None:
    messages = iter(received(0, 1, 2, 3))
    take(messages, numbered(3, 32), 3)
    assert [message.body for message in messages] == [next(numbered(1, 32, first=3))]


def test_other_properties_fail() -> None:
    (message,) = received(0)
    cast("Received", message).properties["amount"] = 7
    with pytest.raises(BenchFailed, match="came with other properties"):
        take_with_properties([message], numbered(1, 32), 1)
