"""docs/jms.md is complete and true: each item has a row, each test it names exists, and it names every JMS test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "jms.md"
TESTS = ROOT / "tests" / "jms"

# Sections A to G of the checklist and J94.
NUMBERS = [
    *range(1, 9),
    *range(10, 24),
    *range(25, 30),
    *range(30, 45),
    *range(50, 60),
    *range(60, 69),
    *range(70, 85),
    94,
]
ITEMS = [f"J{number:02d}" for number in NUMBERS]
UNTESTED = {"J23": "optional, not provided"}
"""Items that the table may leave without a test, and the words that say why."""

BEYOND = {"test_ranges.py"}
"""Tests of what JMS does not know; they are there because all tests of that folder run against a cluster, too."""

_ROW = re.compile(r"^\| (J\d\d) \| (?P<what>[^|]+) \| (?P<where>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(test_\w+\.py::test_\w+)`")


def rows() -> dict[str, re.Match[str]]:
    found = list(_ROW.finditer(TABLE.read_text(encoding="utf-8")))
    assert len({row.group(1) for row in found}) == len(found), "an item has two rows"
    return {row.group(1): row for row in found}


def existing_tests() -> set[str]:
    return {
        f"{path.name}::{node.name}"
        for path in TESTS.glob("test_*.py")
        if path.name not in BEYOND
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("item", ITEMS)
def test_each_item_has_a_row_with_tests(item: str) -> None:
    row = rows().get(item)
    assert row is not None, f"docs/jms.md has no row for {item}"
    named = _TEST.findall(row["tests"])
    if item in UNTESTED:
        assert UNTESTED[item] in row["where"]
        return
    assert named, f"the row of {item} names no test"
    assert all(f"::test_{item.lower()}_" in name for name in named), f"the row of {item} names a test of another item"


def test_each_test_that_the_table_names_exists() -> None:
    named = {name for row in rows().values() for name in _TEST.findall(row["tests"])}
    assert named - existing_tests() == set()


def test_each_jms_test_is_named_by_the_table() -> None:
    named = {name for row in rows().values() for name in _TEST.findall(row["tests"])}
    assert existing_tests() - named == set()
