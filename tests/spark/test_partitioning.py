"""Which task reads what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.spark.cores import cores_of
from tocsin.spark.partitioning import Slice, plan, task_count


def even_cuts(found: Slice, parts: int) -> list[int]:
    """A server whose batches have one message."""
    size = found.end - found.start
    return sorted({found.start + size * part // parts for part in range(parts + 1)})


@pytest.mark.parametrize(
    ("rows", "cores", "least", "rows_max", "expected"),
    [
        (1, 2, None, None, 1),
        (99_999, 2, None, None, 1),
        (250_000, 2, None, None, 2),
        (1_000_000, 2, None, None, 2),
        (5_000_000, 2, None, None, 6),
        (1_000_000, 8, None, None, 8),
        (100_000_000, 2, None, None, 8),
        (10, 2, 4, None, 4),
        (3, 2, 100, None, 3),
        (1_000, 2, None, 10, 100),
        (0, 2, None, None, 1),
    ],
)
def test_how_many_tasks_pay(rows: int, cores: int, least: int | None, rows_max: int | None, expected: int) -> None:
    assert task_count(rows, cores, least, rows_max) == expected


def test_a_large_range_is_cut_where_the_server_says() -> None:
    found = plan([Slice("topic:a", 0, 100)], 2, None, lambda found, parts: [0, 40, 100])
    assert found == [(Slice("topic:a", 0, 40),), (Slice("topic:a", 40, 100),)]


def test_small_ranges_share_a_task() -> None:
    slices = [Slice(f"topic:{name}", 0, 10) for name in "abcd"]
    assert plan(slices, 2, None, even_cuts) == [tuple(slices[:2]), tuple(slices[2:])]


def test_a_batch_that_is_larger_than_a_task_may_be_is_cut() -> None:
    found = plan([Slice("topic:a", 0, 25)], 3, 10, lambda found, parts: [0, 25])
    assert [(each.start, each.end) for task in found for each in task] == [(0, 10), (10, 20), (20, 25)]
    assert len(found) == 3


def test_nothing_to_read_is_no_task() -> None:
    assert plan([Slice("topic:a", 5, 5)], 4, None, even_cuts) == []


def test_pieces_of_a_take_keep_its_drain() -> None:
    found = plan([Slice("queue:q", 0, 1_000, "d", 3, messages=100)], 2, None, even_cuts)
    assert [(each.start, each.end, each.drain, each.take, each.rows) for task in found for each in task] == [
        (0, 500, "d", 3, 50),
        (500, 1_000, "d", 3, 50),
    ]


ranges = st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 500)), min_size=1, max_size=8)


@given(ranges, st.integers(1, 20), st.none() | st.integers(1, 100))
def test_every_offset_is_read_once_and_in_order(found: list[tuple[int, int]], count: int, rows_max: int | None) -> None:
    slices = [Slice(f"topic:{at}", start, start + size) for at, (start, size) in enumerate(found)]
    tasks = plan(slices, count, rows_max, even_cuts)
    offsets = [(each.destination, offset) for task in tasks for each in task for offset in range(each.start, each.end)]
    assert offsets == [(each.destination, offset) for each in slices for offset in range(each.start, each.end)]
    if rows_max is not None:
        assert all(sum(each.rows for each in task) <= rows_max for task in tasks)


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[4, 2]", 4), ("spark://host:7077", None), ("yarn", None)],
)
def test_the_cores_of_a_master(master: str, cores: int | None) -> None:
    assert cores_of(master) == cores


def test_a_local_master_with_all_cores() -> None:
    assert (cores_of("local[*]") or 0) >= 1
