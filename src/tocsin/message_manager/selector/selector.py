"""The face of the package: compile a selector once, then ask it about rows and batches.

A selector is kept as clauses, all of which must hold: the operands of its outermost AND, those on the same
identifiers together. In a batch where all columns of a clause have one value, the clause is decided once. The
others are scanned one after the other, each only over the rows that the clauses before it left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

from tocsin.message_manager.selector.codegen import RowFunction, ScanFunction, row_function, scan_function
from tocsin.message_manager.selector.columns import Column, Columns, Same, Value
from tocsin.message_manager.selector.cost import Cost
from tocsin.message_manager.selector.parser import parse
from tocsin.message_manager.selector.syntax import AllOf, Expression, identifiers_of
from tocsin.message_manager.selector.tokens import WHITESPACE
from tocsin.model.selector_limits import SELECTOR_CLAUSES_MAX

_UNSET = Same(None)


def compile_selector(text: str | None) -> Selector | None:
    """None for a selector that selects everything: none at all, or a blank one. Raises InvalidSelector."""
    if text is None or not text.strip(WHITESPACE):
        return None
    return Selector(text, parse(text))


class Selector:
    __slots__ = ("_clauses", "cost", "identifiers", "text")

    def __init__(self, text: str, tree: Expression) -> None:
        self.text = text
        self.identifiers = identifiers_of(tree)
        self.cost = Cost(tree)
        self._clauses = [_Clause(clause) for clause in _clauses(tree)]

    def matches(self, values: Mapping[str, Value]) -> bool:
        """Whether one message matches; a name that is missing is unset."""
        return all(clause.holds([values.get(name) for name in clause.identifiers]) for clause in self._clauses)

    def select(self, columns: Columns, count: int) -> list[tuple[int, int]]:
        """The rows of a batch that match, as rising [start, end) ranges with gaps between them."""
        if count == 0:
            return []
        found = {name: self._column(columns, name, count) for name in self.identifiers}
        scans: list[tuple[_Clause, list[Column]]] = []
        for clause in self._clauses:
            own = [found[name] for name in clause.identifiers]
            shared = [column.value for column in own if isinstance(column, Same)]
            if len(shared) < len(own):
                scans.append((clause, own))
            elif not clause.holds(shared):
                return []
        rows: Sequence[int] = range(count)
        for clause, own in scans:
            rows = clause.scan(own, rows, count)
            if not rows:
                return []
        return _ranges(rows)

    @staticmethod
    def _column(columns: Columns, name: str, count: int) -> Column:
        column = columns.column(name)
        if column is None:
            return _UNSET
        if not isinstance(column, Same) and len(column) != count:
            raise ValueError(f"The column {name!r} has {len(column)} values for {count} rows.")
        return column


class _Clause:
    """A condition that can be decided on its own. Its functions are made when they are wanted: most need only one."""

    __slots__ = ("_row", "_scan", "_tree", "identifiers")

    def __init__(self, tree: Expression) -> None:
        self._tree = tree
        self.identifiers = identifiers_of(tree)
        self._row: RowFunction | None = None
        self._scan: ScanFunction | None = None

    def holds(self, values: list[Value]) -> bool:
        if self._row is None:
            self._row = row_function(self._tree, self.identifiers)
        return bool(self._row(*values))

    def scan(self, columns: list[Column], rows: Sequence[int], count: int) -> Sequence[int]:
        """Those of the rows where the clause is TRUE; at least one of the columns has a value per row."""
        if self._scan is None:
            self._scan = scan_function(self._tree, self.identifiers)
        everything = len(rows) == count
        own = [
            repeat(column.value, len(rows))
            if isinstance(column, Same)
            else column
            if everything
            else [column[row] for row in rows]
            for column in columns
        ]
        hits = self._scan(*own)
        return hits if everything else [rows[hit] for hit in hits]


def _clauses(tree: Expression) -> list[Expression]:
    grouped: dict[tuple[str, ...], list[Expression]] = {}
    for operand in _conjuncts(tree):
        grouped.setdefault(identifiers_of(operand), []).append(operand)
    groups = list(grouped.values())
    if len(groups) > SELECTOR_CLAUSES_MAX:
        rest = [operand for group in groups[SELECTOR_CLAUSES_MAX - 1 :] for operand in group]
        groups = [*groups[: SELECTOR_CLAUSES_MAX - 1], rest]
    return [group[0] if len(group) == 1 else AllOf(tuple(group)) for group in groups]


def _conjuncts(tree: Expression) -> list[Expression]:
    if not isinstance(tree, AllOf):
        return [tree]
    return [conjunct for operand in tree.operands for conjunct in _conjuncts(operand)]


def _ranges(rows: Sequence[int]) -> list[tuple[int, int]]:
    first, last = rows[0], rows[-1]
    if last - first + 1 == len(rows):
        return [(first, last + 1)]
    ranges: list[tuple[int, int]] = []
    start = end = first
    for row in rows:
        if row != end:
            ranges.append((start, end))
            start = row
        end = row + 1
    ranges.append((start, end))
    return ranges
