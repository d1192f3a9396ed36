"""Spark's filters as what the server can do: a selector, bounds of offsets, a choice of topics.

Only what means exactly the same on both sides is taken over; everything else stays with Spark, which filters again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from tocsin.model.errors import MessageFormatError
from tocsin.model.message import MODES
from tocsin.model.properties import check_property_name
from tocsin.model.selector_limits import SELECTOR_CHARACTERS_MAX, SELECTOR_IN_LIST_ITEMS_MAX
from tocsin.spark.schema import PROPERTY, wanted_columns

_TEXTS = {
    "messageId": "JMSMessageID", "correlationId": "JMSCorrelationID", "type": "JMSType", "groupId": "JMSXGroupID",
}  # fmt: skip
_NUMBERS = {"priority": "JMSPriority", "groupSequence": "JMSXGroupSeq"}
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_COMPARISONS = {
    EqualTo: "=", EqualNullSafe: "=", GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<=",
}  # fmt: skip
_PATTERNS: dict[type, Callable[[str], str]] = {
    StringStartsWith: lambda text: f"{text}%",
    StringEndsWith: lambda text: f"%{text}",
    StringContains: lambda text: f"%{text}%",
}
_ROOM = SELECTOR_CHARACTERS_MAX // 2
"""The other half is left to the user's own filter."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """What the server is to leave out. Offsets: from `first` on, up to `end`; None is no bound."""

    clauses: tuple[str, ...] = ()
    first: int = 0
    end: int | None = None
    topics: frozenset[str] | None = None

    def selector(self, own: str | None) -> str | None:
        """Together with the user's own filter."""
        clauses = [f"({own})"] if own and self.clauses else [own] if own else []
        return " AND ".join([*clauses, *self.clauses]) or None

    def bound(self, start: int, end: int) -> tuple[int, int]:
        low = max(start, self.first)
        high = end if self.end is None else min(end, self.end)
        return low, max(low, high)


def push(filters: Iterable[Filter], schema: StructType) -> tuple[Pushed, list[Filter]]:
    """What the server takes over, and the filters that Spark must keep."""
    columns = {each.name: (each, field.dataType) for each, field in zip(wanted_columns(schema), schema, strict=True)}
    pushed, kept = Pushed(), []
    for each in filters:
        found = columns.get(_attribute(each))
        taken = None if found is None else _take(pushed, each, found[0].column, found[0].prop, found[1])
        if taken is None:
            kept.append(each)
        else:
            pushed = taken
    return pushed, kept


def _attribute(found: Filter) -> str:
    path: Sequence[str] = (found.child if isinstance(found, Not) else found).attribute
    return path[0] if len(path) == 1 else ""


def _take(pushed: Pushed, found: Filter, column: str, prop: str, kind: DataType) -> Pushed | None:
    if column == "offset":
        return _bound_offsets(pushed, found)
    if column == "topic":
        return _choose_topics(pushed, found)
    clause = _clause(found, column, prop, kind)
    if clause is None or sum(map(len, pushed.clauses)) + len(clause) > _ROOM:
        return None
    return replace(pushed, clauses=(*pushed.clauses, clause))


def _bound_offsets(pushed: Pushed, found: Filter) -> Pushed | None:
    if type(found) not in _COMPARISONS or type(found.value) is not int:
        return None
    value, sign = found.value, _COMPARISONS[type(found)]
    first, end = pushed.first, pushed.end
    if sign in ("=", ">", ">="):
        first = max(first, value + (sign == ">"))
    if sign in ("=", "<", "<="):
        upto = value + (sign != "<")
        end = upto if end is None else min(end, upto)
    return replace(pushed, first=first, end=end)


def _choose_topics(pushed: Pushed, found: Filter) -> Pushed | None:
    if isinstance(found, EqualTo | EqualNullSafe):
        names = {found.value}
    elif isinstance(found, In):
        names = set(found.value)
    else:
        return None
    if not all(isinstance(name, str) for name in names):
        return None
    return replace(pushed, topics=frozenset(names if pushed.topics is None else pushed.topics & names))


def _clause(found: Filter, column: str, prop: str, kind: DataType) -> str | None:
    """A clause of a selector, or None when there is none that means the same."""
    if isinstance(found, Not):
        inner = found.child
        # Unlike the others, this one is false and not unknown for a null, so its opposite is true.
        if isinstance(inner, EqualNullSafe | Not):
            return None
        clause = _clause(inner, column, prop, kind)
        return None if clause is None else f"NOT ({clause})"
    if column == "deliveryMode":
        return _delivery_mode(found)
    identifier = _identifier(column, prop)
    if identifier is None:
        return None
    if isinstance(found, In):
        return _one_of(identifier, found.value, kind)
    if type(found) in _PATTERNS:
        return _like(identifier, _PATTERNS[type(found)](_escaped(found.value))) if _is_text(kind) else None
    sign = _COMPARISONS.get(type(found))
    literal = None if sign is None else _literal(found.value, kind)
    if literal is None or (sign != "=" and not isinstance(kind, _WHOLE)):
        return None
    return f"{identifier} {sign} {literal}"


def _identifier(column: str, prop: str) -> str | None:
    if column != PROPERTY:
        return _TEXTS.get(column) or _NUMBERS.get(column)
    try:
        return check_property_name(prop)
    except MessageFormatError:
        return None


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _literal(value: Any, kind: DataType) -> str | None:
    """A value as a selector writes it; None for one that is not of the column's own kind."""
    if isinstance(value, str) and _is_text(kind):
        return _quoted(value)
    if isinstance(value, bool):
        return str(value).upper() if isinstance(kind, BooleanType) else None
    if isinstance(value, int) and isinstance(kind, _WHOLE):
        return str(value)
    return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _one_of(identifier: str, values: Sequence[Any], kind: DataType) -> str | None:
    """Selectors have IN for text alone; a few numbers are compared one by one."""
    literals = [_literal(value, kind) for value in values]
    if not literals or None in literals or len(literals) > SELECTOR_IN_LIST_ITEMS_MAX // 4:
        return None
    if _is_text(kind):
        return f"{identifier} IN ({', '.join(map(str, literals))})"
    return "(" + " OR ".join(f"{identifier} = {literal}" for literal in literals) + ")"


def _escaped(text: str) -> str:
    for special in "\\%_":
        text = text.replace(special, "\\" + special)
    return text


def _like(identifier: str, pattern: str) -> str:
    escape = " ESCAPE '\\'" if "\\" in pattern else ""
    return f"{identifier} LIKE {_quoted(pattern)}{escape}"


def _delivery_mode(found: Filter) -> str | None:
    if isinstance(found, EqualTo | EqualNullSafe) and found.value in MODES:
        return f"JMSDeliveryMode = '{found.value.upper()}'"
    return None
