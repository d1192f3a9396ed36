"""Bodies that are distinct and numbered, so that a consumer can check every byte of each of them.

    0   8  number, big-endian
    8   .  filling

They are made by the iterators of the standard library without a line of Python per message: the benchmark
should measure the sending, not the making. Batches of a given length need text beside bytes, see
`kinds_by_turns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from operator import add
from typing import Literal

from tocsin.cli.bench.process import BenchFailed

NUMBER_BYTES = 8
Body = bytes | str


def numbered(count: int, size: int, first: int = 0) -> Iterator[bytes]:
    order: Iterator[Literal["big"]] = repeat("big")
    numbers = map(int.to_bytes, range(first, first + count), repeat(NUMBER_BYTES), order)
    return map(add, numbers, repeat(b"x" * (size - NUMBER_BYTES)))


def kinds_by_turns(count: int, size: int, run: int) -> Iterator[Body]:
    """Runs of bytes and of text by turns: a change of kind closes a batch, so none is longer than a run."""
    for first in range(0, count, run):
        length = min(run, count - first)
        if first // run % 2 == 0:
            yield from numbered(length, size, first)
        else:
            yield from (f"{number:0{size}d}" for number in range(first, first + length))


def number_of(body: object) -> int | None:
    """The number in a body, None if it is not one of ours."""
    if isinstance(body, bytes) and len(body) >= NUMBER_BYTES:
        return int.from_bytes(body[:NUMBER_BYTES], "big")
    if isinstance(body, str) and body.isdecimal():
        return int(body)
    return None


def wrong_body(expected: Body, found: object) -> BenchFailed:
    """What is wrong, in words: lost, repeated, or something else."""
    wanted, got = number_of(expected), number_of(found)
    if wanted is None or got is None or wanted == got:
        return BenchFailed(f"Message {wanted} came with another body: {found!r:.80}.")
    if got < wanted:
        return BenchFailed(f"Message {got} came again where {wanted} was due.")
    return BenchFailed(f"Messages {wanted} to {got - 1} are missing: {got} came instead.")
