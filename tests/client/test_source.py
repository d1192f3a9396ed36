"""What send_many takes at a time from a source that is quick, slow, or breaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tocsin.client import source as module
from tocsin.client.source import Source
from tocsin.model.limits import CLIENT_BATCH_MESSAGES


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def sizes(source: Source, chunks: int) -> list[int]:
    return [len(source.next_chunk()) for _ in range(chunks)]


def test_a_list_is_taken_in_chunks_that_grow(clock: Clock) -> None:
    assert sizes(Source(list(range(50_000))), 6) == [32, 128, 512, 2048, CLIENT_BATCH_MESSAGES, CLIENT_BATCH_MESSAGES]


def test_of_a_generator_the_first_body_leaves_by_itself_and_more_follow_while_it_is_quick(clock: Clock) -> None:
    assert sizes(Source(iter(range(50_000))), 5) == [1, 4, 16, 64, 256]


def test_of_a_slow_source_each_body_leaves_when_it_comes(clock: Clock) -> None:
    def slow() -> Iterator[int]:
        for number in range(100):
            clock.now += 1.0
            yield number

    assert sizes(Source(slow()), 6) == [1, 1, 1, 1, 1, 1]


def test_of_a_source_that_becomes_slow_less_is_taken_the_next_time(clock: Clock) -> None:
    def slower() -> Iterator[int]:
        for number in range(100):
            clock.now += 0.01 if number > 20 else 0.0
            yield number

    assert sizes(Source(slower()), 6) == [1, 4, 16, 64, 1, 1]


def test_no_more_is_taken_than_fits_a_batch(clock: Clock) -> None:
    source = Source(list(range(1000)))
    source.limit = 3
    assert sizes(source, 2) == [3, 3]


def test_what_came_before_an_error_is_a_chunk_and_the_error_is_kept(clock: Clock) -> None:
    def breaks() -> Iterator[int]:
        yield from range(7)
        raise ZeroDivisionError("no more")

    source = Source(breaks())
    assert [source.next_chunk() for _ in range(4)] == [[0], [1, 2, 3, 4], [5, 6], []]
    assert isinstance(source.error, ZeroDivisionError)


def test_the_end_is_no_chunk(clock: Clock) -> None:
    assert Source([]).next_chunk() == [] and Source(iter(())).next_chunk() == []
