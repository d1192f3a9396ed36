"""Two tables compared row by row, whatever their order: first by sums that need no shuffle, and only when those
differ, by joining the two sides.

A row's fingerprint is xxhash64 of key and value, each with whether it is null, since the hash itself passes over
nulls. The checksum is the sum of the fingerprints modulo 2**64: it does not depend on the order, and a row that is
doubled, missing or changed shows in it. It is taken in parts of few bits, none of which overflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tocsin.model.spark_limits import VERIFY_EXAMPLES_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PART_BITS = 22
"""A sum of such parts has room for 2**41 rows."""
WHOLE = (1 << 64) - 1
EXAMPLE_BYTES = 20


@dataclass(frozen=True, slots=True)
class Side:
    """What one table adds up to."""

    rows: int
    checksum: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Differences:
    """How the second table differs from the first, in rows."""

    missing: int = 0
    """In the first and not in the second."""
    extra: int = 0
    """In the second, and the first has nothing like it."""
    doubled: int = 0
    """More often in the second than in the first."""
    changed: int = 0
    """The same by what identifies a row, and another key or value."""
    examples: Sequence[str] = field(default=())

    @property
    def none(self) -> bool:
        return not (self.missing or self.extra or self.doubled or self.changed)


@dataclass(frozen=True, slots=True)
class Comparison:
    first: Side
    second: Side
    differences: Differences

    @property
    def equal(self) -> bool:
        return self.first == self.second and self.differences.none


def fingerprint(*columns: Column) -> Column:
    from pyspark.sql import functions as f

    parts: list[Column] = []
    for column in columns:
        parts += [f.isnull(column), column]
    return f.xxhash64(*parts)


def compare(first: DataFrame, second: DataFrame, by: Column | None, *, content: bool = True) -> Comparison:
    """`by` identifies a row on both sides, such as its offset; without it, rows are told apart by key and value.
    Without `content`, key and value may differ.
    """
    left, right = prints(first, by, content), prints(second, by, content)
    one, two = sums(left), sums(right)
    if one == two:
        return Comparison(one, two, Differences())
    return Comparison(one, two, _differences(left, right))


def prints(rows: DataFrame, by: Column | None, content: bool) -> DataFrame:
    """What identifies a row, as a value and as a text for examples, and the fingerprint of the rest."""
    from pyspark.sql import functions as f

    key, value = f.col("key"), f.col("value")
    whole = fingerprint(key, value)
    if by is None:
        text = f.concat(_text(key), f.lit(" "), _text(value))
        return rows.select(whole.alias("id"), text.alias("text"), f.lit(0).cast("long").alias("print"))
    other = whole if content else f.lit(0).cast("long")
    return rows.select(fingerprint(by).alias("id"), by.cast("string").alias("text"), other.alias("print"))


def _text(column: Column) -> Column:
    from pyspark.sql import functions as f

    # Bytes need not be a text, so examples show their digits.
    return f.coalesce(f.hex(f.substring(column, 1, EXAMPLE_BYTES)), f.lit("null"))


def sums(rows: DataFrame) -> Side:
    """Of rows that `prints` has made, in one pass and without a shuffle."""
    from pyspark.sql import functions as f

    row = rows.agg(f.count(f.lit(1)).alias("rows"), _total(f.xxhash64("id", "print")).alias("total")).collect()[0]
    total = sum((part or 0) << (PART_BITS * index) for index, part in enumerate(row["total"])) & WHOLE
    return Side(int(row["rows"]), f"{total:016x}")


def _total(column: Column) -> Column:
    """The sum of hashes, as an array of the sums of their parts, the lowest bits first."""
    from pyspark.sql import functions as f

    mask = f.lit((1 << PART_BITS) - 1).cast("long")
    parts = (f.shiftrightunsigned(column, shift) for shift in range(0, 64, PART_BITS))
    return f.array(*(f.sum(part.bitwiseAND(mask)) for part in parts))


def _differences(left: DataFrame, right: DataFrame) -> Differences:
    from pyspark.sql import functions as f

    def grouped(rows: DataFrame, side: str) -> DataFrame:
        return rows.groupBy("id").agg(
            f.count(f.lit(1)).alias(f"{side}_rows"),
            _total(f.col("print")).alias(f"{side}_total"),
            f.min("text").alias(f"{side}_text"),
        )

    joined = grouped(left, "l").join(grouped(right, "r"), "id", "full_outer")
    zero = f.lit(0).cast("long")
    counted = joined.select(
        f.coalesce("l_text", "r_text").alias("text"),
        f.coalesce("l_rows", zero).alias("l"),
        f.coalesce("r_rows", zero).alias("r"),
        (f.col("l_total") == f.col("r_total")).alias("same"),
    )
    found = counted.select(
        "text",
        f.greatest(f.col("l") - f.col("r"), zero).alias("missing"),
        f.when(f.col("l") == 0, f.col("r")).otherwise(zero).alias("extra"),
        f.when(f.col("l") > 0, f.greatest(f.col("r") - f.col("l"), zero)).otherwise(zero).alias("doubled"),
        f.when((f.col("l") == f.col("r")) & ~f.col("same"), f.col("l")).otherwise(zero).alias("changed"),
    )
    kinds = ("missing", "extra", "doubled", "changed")
    counts = found.agg(*(f.coalesce(f.sum(kind), zero).alias(kind) for kind in kinds)).collect()[0]
    return Differences(
        missing=int(counts["missing"]),
        extra=int(counts["extra"]),
        doubled=int(counts["doubled"]),
        changed=int(counts["changed"]),
        examples=_examples(found, kinds),
    )


def _examples(found: DataFrame, kinds: Sequence[str]) -> tuple[str, ...]:
    from pyspark.sql import functions as f

    different = found.where(sum((f.col(kind) for kind in kinds), f.lit(0)) > 0)
    rows = different.orderBy(f.length("text"), "text").limit(VERIFY_EXAMPLES_MAX).collect()
    return tuple(f"{next(kind for kind in kinds if row[kind])}: {row['text']}" for row in rows)


def offsets_missing(rows: DataFrame, first: int, end: int) -> list[tuple[int, int]]:
    """The ranges within [first, end) at which a table has no row, the lowest ones."""
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    present = rows.select("offset").where((f.col("offset") >= first) & (f.col("offset") < end)).distinct()
    before = f.lag("offset", 1, first - 1).over(Window.orderBy("offset"))
    holes = present.select((before + 1).alias("first"), f.col("offset").alias("end")).where(
        f.col("first") < f.col("end")
    )
    found = [
        (int(row["first"]), int(row["end"])) for row in holes.orderBy("first").limit(VERIFY_EXAMPLES_MAX).collect()
    ]
    last = present.agg(f.max("offset")).collect()[0][0]
    behind = first if last is None else int(last) + 1
    if behind < end:
        found.append((behind, end))
    return found
