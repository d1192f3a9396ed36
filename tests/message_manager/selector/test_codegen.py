from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.message_manager.selector import reference, strategies

from tocsin.message_manager.selector.codegen import row_function, scan_function
from tocsin.message_manager.selector.columns import Value
from tocsin.message_manager.selector.parser import parse
from tocsin.message_manager.selector.syntax import identifiers_of
from tocsin.model.values import Float, Int, Short


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(strategies.selectors(), st.lists(strategies.rows(), min_size=1, max_size=8))
@example("a = 9007199254740992.0 OR 9007199254740992 < a", [{"a": 2**53 + 1}, {"a": 2.0**53}])
@example("a + a = FALSE OR -a <> TRUE", [{"a": 0}, {"a": 2}])
@example("NOT (a + 0 = 9007199254740992.0)", [{"a": 2**53 + 1}, {"a": 2**53 - 1}])
def test_generated_functions_agree_with_plain_evaluation(text: str, rows: list[dict[str, Value]]) -> None:
    tree = parse(text)
    names = identifiers_of(tree)
    expected = [reference.evaluate(tree, row) is True for row in rows]

    of_a_row = row_function(tree, names)
    assert [bool(of_a_row(*map(row.get, names))) for row in rows] == expected

    if names:
        columns = [[row.get(name) for row in rows] for name in names]
        assert scan_function(tree, names)(*columns) == [n for n, holds in enumerate(expected) if holds]


def test_client_text_never_becomes_a_name_or_code() -> None:
    text = "__import__ = 'os.system(1)' AND v1 = 2 AND function = 3 AND isinstance IS NOT NULL"
    tree = parse(text)
    names = identifiers_of(tree)
    code = row_function(tree, names).__code__

    assert code.co_varnames == ("v0", "v1", "v2", "v3")
    assert not set(code.co_names) & set(names) - {"isinstance"}
    assert row_function(tree, names)("os.system(1)", 2, 3, "anything")


def test_generated_code_sees_no_builtins() -> None:
    function = row_function(parse("a = 1"), ("a",))
    assert function.__globals__["__builtins__"] == {}


def test_values_of_the_narrower_jms_types_count_as_numbers() -> None:
    function = row_function(parse("a > 1 AND a + 1 < 5 AND a <> 2 AND b = a"), ("a", "b"))
    assert function(Int(3), Short(3))
    assert function(Float(3.5), 3.5)
    assert not function(Int(2), Int(2))
