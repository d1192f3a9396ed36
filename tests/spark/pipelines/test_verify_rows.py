"""Every kind of difference, planted and found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.spark.pipelines.tables import messages, row, table

from tocsin.spark.pipelines.verify_rows import Differences, compare, offsets_missing, prints, sums

Rows = list[tuple[Any, ...]]
GOOD = [row(offset, key=b"" if offset == 9 else None) for offset in range(100)]


def without(rows: Rows, offset: int) -> Rows:
    return [each for each in rows if each[4] != offset]


def changed(rows: Rows, offset: int) -> Rows:
    return [row(offset, value=b"valuf %d" % offset) if each[4] == offset else each for each in rows]


FAULTS: dict[str, Callable[[Rows], Rows]] = {
    "a missing row": lambda rows: without(rows, 50),
    "the first row missing": lambda rows: rows[1:],
    "the last row missing": lambda rows: rows[:-1],
    "a doubled row": lambda rows: [*rows, rows[50]],
    "a doubled row without offset": lambda rows: [*rows, rows[50]],
    "a changed byte": lambda rows: changed(rows, 50),
    "a changed byte without offset": lambda rows: changed(rows, 50),
    "one missing and another doubled": lambda rows: [*without(rows, 50), rows[7]],
    "one missing and another doubled without offset": lambda rows: [*without(rows, 50), rows[7]],
    "a null key in place of an empty one": lambda rows: [*without(rows, 9), (None, *rows[9][1:])],
    "key and value exchanged": lambda rows: [*without(rows, 9), (rows[9][1], rows[9][0], *rows[9][2:])],
}


@pytest.mark.parametrize(("name", "fault"), FAULTS.items(), ids=FAULTS)
def test_a_fault_shows_in_the_sums(spark: SparkSession, name: str, fault: Callable[[Rows], Rows]) -> None:
    by = None if "offset" in name else f.col("offset")
    good, bad = (sums(prints(table(spark, rows), by, True)) for rows in (GOOD, fault(GOOD)))
    assert good != bad and good.checksum != bad.checksum


def all_faults(rows: Rows) -> Rows:
    found = [each for each in changed(without(rows, 50), 51) if each[4] not in (52, 99)]
    return [*found, rows[7], rows[8], rows[8], row(100), (None, *rows[52][1:])]


def test_faults_are_told_by_offset(spark: SparkSession) -> None:
    found = compare(table(spark, GOOD), table(spark, all_faults(GOOD)), f.col("offset"))
    assert not found.equal
    assert found.differences == Differences(
        missing=2,
        extra=1,
        doubled=3,
        changed=2,
        examples=(
            "doubled: 7",
            "doubled: 8",
            "missing: 50",
            "changed: 51",
            "changed: 52",
            "missing: 99",
            "extra: 100",
        ),
    )


def test_faults_are_told_without_offsets(spark: SparkSession) -> None:
    found = compare(table(spark, GOOD), table(spark, all_faults(GOOD)), None).differences
    assert (found.missing, found.extra, found.doubled, found.changed) == (4, 3, 3, 0)


def test_the_order_does_not_matter(spark: SparkSession) -> None:
    found = compare(table(spark, GOOD), table(spark, reversed(GOOD)).repartition(3), f.col("offset"))
    assert found.equal and found.differences == Differences()
    assert found.first == found.second and found.first.rows == 100


def test_offsets_do_not_matter_among_topics(spark: SparkSession) -> None:
    shifted = messages(spark, 0, 30).withColumn("offset", f.col("offset") + 1000)
    assert compare(messages(spark, 0, 30), shifted, None).equal


def test_rows_that_are_alike_are_counted(spark: SparkSession) -> None:
    same = [row(offset, key=b"k", value=b"v") for offset in range(5)]
    found = compare(table(spark, same), table(spark, same[:3]), None)
    assert found.differences.missing == 2 and found.differences.examples == ("missing: 6B 76",)


def test_a_message_is_identified_by_an_expression(spark: SparkSession) -> None:
    def numbered(form: bytes, *numbers: int) -> DataFrame:
        return table(spark, (row(at, key=b"%d" % number, value=form) for at, number in enumerate(numbers)))

    by = f.expr("cast(key as string)")
    source, target = numbered(b"old", 1, 2, 3, 4), numbered(b"new", 4, 3, 3, 1)
    loose = compare(source, target, by, content=False)
    assert loose.differences == Differences(missing=1, doubled=1, examples=("missing: 2", "doubled: 3"))
    strict = compare(source, target, by)
    assert strict.differences.changed == 2


def test_two_empty_tables_are_equal(spark: SparkSession) -> None:
    assert compare(messages(spark, 0, 0), messages(spark, 0, 0), f.col("offset")).equal


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (range(10, 20), []),
        ([*range(10, 14), *range(16, 20)], [(14, 16)]),
        ([12, 13], [(10, 12), (14, 20)]),
        ([], [(10, 20)]),
    ],
)
def test_offsets_that_are_missing_are_told_as_ranges(
    spark: SparkSession, present: list[int], expected: list[tuple[int, int]]
) -> None:
    assert offsets_missing(table(spark, map(row, present)), 10, 20) == expected
