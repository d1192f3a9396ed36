"""Blocks for tests, as a client would send them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, ColumnData, check_block, encode_block
from tocsin.model.columns import bytes_column, value_column
from tocsin.model.destination import Kind
from tocsin.model.values import Type, type_of

PRODUCER = bytes(range(16))


@dataclass(frozen=True)
class Found:
    """A block where a range read has found it."""

    offset: int
    block: Block
    ranges: Sequence[tuple[int, int]]
    append_time: int = 1_700_000_000_123


@dataclass
class Sent:
    """Messages of one batch; a list per column, None where a message has no value."""

    bodies: Sequence[bytes]
    keys: Sequence[bytes | None] | None = None
    times: Sequence[int] = ()
    properties: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    columns: Mapping[Column, tuple[Type, Sequence[Any]]] = field(default_factory=dict)
    header: Mapping[str, Any] = field(default_factory=dict)

    def block(self, name: str = "prices") -> Block:
        columns: list[ColumnData] = [bytes_column(Column.BODY, self.bodies)]
        if self.keys is not None:
            columns.append(value_column(Column.KEY, Type.BYTES, "", self.keys))
        base = min(self.times) if self.times else 0
        if len(set(self.times)) > 1:
            columns.append(value_column(Column.TIMESTAMP, Type.INT, "", [time - base for time in self.times]))
        for column, (kind, values) in self.columns.items():
            columns.append(value_column(column, kind, "", values))
        for prop, values in self.properties.items():
            for kind in dict.fromkeys(type_of(value) for value in values if value is not None):
                same = [value if value is not None and type_of(value) is kind else None for value in values]
                columns.append(value_column(Column.PROPERTY, kind, prop, same))
        header = BatchHeader(
            name,
            Kind.TOPIC,
            count=len(self.bodies),
            body_kind=BodyKind.BYTES,
            producer_id=PRODUCER,
            base_timestamp=base,
            **self.header,
        )
        return check_block(encode_block(header, columns))

    def found(self, offset: int, *ranges: tuple[int, int], name: str = "prices") -> Found:
        block = self.block(name)
        return Found(offset, block, ranges or ((0, block.count),))
