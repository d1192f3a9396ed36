"""Spark's filters: which become part of a selector, and which stay with Spark."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from tests.spark.schemas import schema_of

from tocsin.message_manager.selector import Same, Selector, compile_selector
from tocsin.spark.pushdown import Pushed, push

SCHEMA = schema_of(
    "offset long, topic string, value binary, timestamp timestamp, priority int, type string, correlationId string, "
    "deliveryMode string, `property:region` string, `property:size` long, `property:weight` double, "
    "`property:urgent` boolean, `property:no name` string"
)


def pushed(*filters: Filter) -> tuple[str | None, int]:
    """The selector, and how many filters Spark keeps."""
    found, kept = push(list(filters), SCHEMA)
    return found.selector(None), len(kept)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (EqualTo(("type",), "order"), "JMSType = 'order'"),
        (EqualNullSafe(("type",), "it's"), "JMSType = 'it''s'"),
        (Not(EqualTo(("property:region",), "EU")), "NOT (region = 'EU')"),
        (In(("property:region",), ("EU", "US")), "region IN ('EU', 'US')"),
        (In(("priority",), (8, 9)), "(JMSPriority = 8 OR JMSPriority = 9)"),
        (GreaterThan(("priority",), 4), "JMSPriority > 4"),
        (LessThanOrEqual(("property:size",), -3), "size <= -3"),
        (EqualTo(("property:urgent",), True), "urgent = TRUE"),
        (StringStartsWith(("type",), "or"), "JMSType LIKE 'or%'"),
        (StringEndsWith(("type",), "100%"), "JMSType LIKE '%100\\%' ESCAPE '\\'"),
        (StringContains(("correlationId",), "a_b"), "JMSCorrelationID LIKE '%a\\_b%' ESCAPE '\\'"),
        (EqualTo(("deliveryMode",), "persistent"), "JMSDeliveryMode = 'PERSISTENT'"),
    ],
)
def test_what_the_server_takes_over(given: Filter, expected: str) -> None:
    assert pushed(given) == (expected, 0)
    assert isinstance(compile_selector(expected), Selector), "the server understands it"


@pytest.mark.parametrize(
    "given",
    [
        EqualTo(("value",), b"x"),
        GreaterThan(("timestamp",), 5),
        GreaterThan(("type",), "m"),
        IsNotNull(("type",)),
        Not(EqualNullSafe(("type",), "order")),
        EqualTo(("property:weight",), 0.5),
        EqualTo(("property:no name",), "x"),
        EqualTo(("priority",), None),
        EqualTo(("deliveryMode",), "sometimes"),
        EqualTo(("type", "inner"), "x"),
        In(("property:size",), (1, None)),
        In(("property:size",), tuple(range(1_000))),
        In(("offset",), (1, 2)),
        Not(EqualTo(("topic",), "prices")),
        EqualTo(("property:region",), "x" * 5_000),
    ],
)
def test_what_spark_keeps(given: Filter) -> None:
    assert pushed(given) == (None, 1)


def test_offsets_become_bounds() -> None:
    found, kept = push([GreaterThan(("offset",), 9), LessThan(("offset",), 20)], SCHEMA)
    assert not kept
    assert found.bound(0, 100) == (10, 20)
    assert found.bound(12, 15) == (12, 15)
    assert found.bound(50, 100) == (50, 50)
    found, _ = push([EqualTo(("offset",), 7)], SCHEMA)
    assert found.bound(0, 100) == (7, 8)
    found, _ = push([GreaterThanOrEqual(("offset",), 3), LessThanOrEqual(("offset",), 4)], SCHEMA)
    assert found.bound(0, 100) == (3, 5)


def test_topics_are_chosen() -> None:
    found, kept = push([In(("topic",), ("a", "b")), EqualTo(("topic",), "b")], SCHEMA)
    assert not kept and found.topics == frozenset({"b"})


def test_clauses_and_the_own_filter_go_together() -> None:
    found, _ = push([EqualTo(("type",), "order"), GreaterThan(("priority",), 4)], SCHEMA)
    assert found.selector("a = 1 OR b = 2") == "(a = 1 OR b = 2) AND JMSType = 'order' AND JMSPriority > 4"
    assert Pushed().selector("a = 1 OR b = 2") == "a = 1 OR b = 2"
    assert Pushed().selector(None) is None


def test_a_negation_means_the_same_for_nulls() -> None:
    """NOT (region = 'EU') is unknown, and so not selected, where there is no region; as in SQL."""
    selector = compile_selector("NOT (region = 'EU')")
    assert selector is not None

    class Columns:
        def column(self, name: str) -> Same | list[str | None] | None:
            return ["EU", None, "US"]

    assert selector.select(Columns(), 3) == [(2, 3)]
