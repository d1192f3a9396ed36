"""A projected block has the columns that were asked for, as they were, and is a block like any other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.strategies import Rows, rows

from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, check_block
from tocsin.model.columns import raw_values
from tocsin.model.destination import Kind
from tocsin.model.errors import IllegalState
from tocsin.model.limits import BATCH_COLUMNS_MAX
from tocsin.model.projection import COLUMNS, Projection, project
from tocsin.model.values import Type

names = st.sampled_from([*COLUMNS, "properties", "property:region", "property:x", "property:nobody has it"])


def contents(block: Block) -> dict[tuple[int, Type, str], list[Any]]:
    return {(each.column, each.type, each.name): raw_values(each, block.count) for each in block.columns()}


def wanted(key: tuple[int, Type, str], columns: list[str]) -> bool:
    if key[0] == Column.PROPERTY:
        return "properties" in columns or f"property:{key[2]}" in columns
    return Column(key[0]).name.lower() in columns


@given(rows(), st.lists(names, unique=True, max_size=6))
def test_what_is_kept_is_as_it_was_and_nothing_else_is_kept(made: Rows, columns: list[str]) -> None:
    original = Block(made.encode())
    found = check_block(project(original, Projection(columns)))
    assert contents(found) == {key: value for key, value in contents(original).items() if wanted(key, columns)}
    header = original.header()
    if "body" not in columns:
        header.body_kind = BodyKind.EMPTY
    assert found.header() == header


@given(rows(), st.lists(names, unique=True, max_size=6))
def test_a_block_is_made_anew_only_when_that_halves_it(made: Rows, columns: list[str]) -> None:
    original = Block(made.encode())
    found = Projection(columns).of(original)
    left_out = original.length - len(project(original, Projection(columns)))
    if found is not original:
        assert found.length <= original.length // 2 + 64 * len(original.directory())
    else:
        assert left_out <= original.length // 2 + 64 * len(original.directory())
    kept = {key: value for key, value in contents(found).items() if wanted(key, columns)}
    assert kept == {key: value for key, value in contents(original).items() if wanted(key, columns)}


def test_keys_without_their_large_bodies_are_a_fraction_of_the_block() -> None:
    header = BatchHeader("prices", Kind.TOPIC, 100, body_kind=BodyKind.BYTES)
    keys = [b"key %04d" % number for number in range(100)]
    made = Rows(header, [b"x" * 1_000] * 100, {(Column.KEY, Type.BYTES, ""): keys})
    original = Block(memoryview(made.encode()))
    found = Projection(["key"]).of(original)
    assert found.length < original.length // 50
    assert contents(found) == {(Column.KEY, Type.BYTES, ""): keys}
    assert Projection(["body"]).of(original) is original


@pytest.mark.parametrize("name", ["boddy", "", "property", "JMSPriority"])
def test_an_unknown_column_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(IllegalState, match="There is no column"):
        Projection(["body", name])


def test_so_many_columns_no_block_has() -> None:
    with pytest.raises(IllegalState, match="at most"):
        Projection(f"property:p{number}" for number in range(BATCH_COLUMNS_MAX + 1))
