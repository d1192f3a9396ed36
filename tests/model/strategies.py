"""Generated values and blocks, with plain rows beside them to compare with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tocsin.model.batch import BatchHeader, BodyKind, Column, DeliveryMode, encode_block
from tocsin.model.columns import bytes_column, text_column, value_column
from tocsin.model.destination import Kind
from tocsin.model.values import Byte, Char, Float, Int, Short, Type

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

ELEMENTS: dict[Type, st.SearchStrategy[Any]] = {
    Type.BOOLEAN: st.booleans(),
    Type.BYTE: st.integers(-(2**7), 2**7 - 1),
    Type.SHORT: st.integers(-(2**15), 2**15 - 1),
    Type.INT: st.integers(-(2**31), 2**31 - 1),
    Type.LONG: st.integers(-(2**63), 2**63 - 1),
    Type.FLOAT: st.floats(width=32, allow_nan=False),
    Type.DOUBLE: st.floats(allow_nan=False),
    Type.STRING: text,
    Type.BYTES: st.binary(max_size=12),
}

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**7), 2**7 - 1).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.characters(max_codepoint=0xFFFF).map(Char),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32).map(Float),
    st.floats(),
    text,
    st.binary(max_size=20),
)
values: st.SearchStrategy[Any] = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)

Key = tuple[Column, Type, str]


@dataclass
class Rows:
    """What a block should hold, message by message."""

    header: BatchHeader
    bodies: list[Any]
    columns: dict[Key, list[Any]] = field(default_factory=dict)

    def encode(self) -> bytes:
        columns = []
        if self.header.body_kind is BodyKind.TEXT:
            columns.append(text_column(Column.BODY, self.bodies))
        elif self.header.body_kind is not BodyKind.EMPTY:
            columns.append(bytes_column(Column.BODY, self.bodies))
        for (column, kind, name), elements in self.columns.items():
            columns.append(value_column(column, kind, name, elements))
        return encode_block(self.header, columns)


OPTIONAL_COLUMNS = {
    Column.KEY: Type.BYTES,
    Column.CORRELATION_ID: Type.STRING,
    Column.REPLY_TO: Type.STRING,
    Column.TYPE: Type.STRING,
    Column.GROUP_ID: Type.STRING,
    Column.GROUP_SEQUENCE: Type.INT,
}
DENSE_COLUMNS = {Column.TIMESTAMP: Type.INT, Column.EXPIRY: Type.LONG}

property_keys = st.tuples(
    st.just(Column.PROPERTY), st.sampled_from(list(ELEMENTS)), st.sampled_from(["region", "größe", "x", "note_2"])
)
column_keys: st.SearchStrategy[Key] = st.one_of(
    property_keys,
    st.sampled_from([(column, kind, "") for column, kind in (OPTIONAL_COLUMNS | DENSE_COLUMNS).items()]),
)
identities = st.binary(min_size=16, max_size=16)
times = st.integers(0, 2**62)


@st.composite
def rows(draw: st.DrawFn, most: int = 20) -> Rows:
    """Blocks of up to so many messages, with any columns, with and without missing values."""
    count = draw(st.integers(1, most))
    kind = draw(st.sampled_from(BodyKind))
    first = draw(st.integers(1, 2**62))
    header = BatchHeader(
        draw(st.sampled_from(["orders", "größe", "q" * 255])),
        draw(st.sampled_from(Kind)),
        count,
        draw(st.integers(0, 3)),
        kind,
        draw(st.sampled_from(DeliveryMode)),
        draw(st.integers(0, 9)),
        draw(identities),
        draw(identities),
        draw(st.integers(0, 2**32 - 1)),
        first,
        draw(st.integers(0, first)),
        draw(times),
        draw(times),
        draw(times),
        draw(identities),
        draw(identities),
    )
    body = {BodyKind.EMPTY: st.none(), BodyKind.TEXT: text}.get(kind, st.binary(max_size=20))
    made = Rows(header, draw(st.lists(body, min_size=count, max_size=count)))
    for key in draw(st.lists(column_keys, unique=True, max_size=6)):
        element = ELEMENTS[key[1]]
        if key[0] not in DENSE_COLUMNS:
            element = draw(st.sampled_from([element, element | st.none(), st.none()]))
        made.columns[key] = draw(st.lists(element, min_size=count, max_size=count))
    return made
