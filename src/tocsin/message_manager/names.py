"""The directory of names: which group has a destination. Each group keeps the names of its slots (cluster.slots).

A name that is given out gets an incarnation, higher than any before it in this group. So who comes with what it knew of
a deleted destination is told from who means the one that bears the name now.

    name.find    {name}                -> {group, incarnation, kind}, or {group: 0}
    name.assign  {name, kind, group}   -> as find: the first who assigns a name decides
    name.remove  {name, incarnation}   -> {removed}
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.model.destination import Kind, check_name
from tocsin.model.errors import InvalidDestination, ProtocolError, ResourceExhausted
from tocsin.model.limits import NAMES_MAX
from tocsin.model.spelling import check_spelling

Fields = dict[str, Any]
Result = tuple[Fields, int]


@dataclass(slots=True)
class NameEntry:
    kind: int
    group: int
    incarnation: int


class Names:
    """What records say about names."""

    __slots__ = ("entries", "next_incarnation")

    def __init__(self) -> None:
        self.entries: dict[str, NameEntry] = {}
        self.next_incarnation = 1

    def apply_assign(self, fields: Fields) -> None:
        entry = NameEntry(fields["kind"], fields["group"], fields["incarnation"])
        self.entries[fields["name"]] = entry
        self.next_incarnation = max(self.next_incarnation, entry.incarnation + 1)

    def apply_remove(self, fields: Fields) -> None:
        entry = self.entries.get(fields["name"])
        if entry is not None and entry.incarnation == fields["incarnation"]:
            del self.entries[fields["name"]]

    def fields(self) -> Fields:
        """For a snapshot: columns as raw bytes, since there may be very many names."""
        entries = self.entries.values()
        return {
            "next": self.next_incarnation, "names": "\n".join(self.entries).encode(),
            "kinds": bytes(each.kind for each in entries),
            "groups": array("H", [each.group for each in entries]).tobytes(),
            "incarnations": array("Q", [each.incarnation for each in entries]).tobytes(),
        }  # fmt: skip

    def load(self, fields: Fields) -> None:
        self.next_incarnation = fields["next"]
        groups, incarnations = array("H", fields["groups"]), array("Q", fields["incarnations"])
        # No name has white space in it.
        names = fields["names"].decode().split()
        rows = zip(names, fields["kinds"], groups, incarnations, strict=True)
        self.entries = {name: NameEntry(kind, group, incarnation) for name, kind, group, incarnation in rows}


class NameService:
    """The operations on names. Answers wait until what they tell is durable."""

    def __init__(self, names: Names, ledger: Ledger) -> None:
        self._names = names
        self._ledger = ledger
        # The last change, which every answer waits for.
        self._lsn = 0
        self.changed: list[str] = []
        """Names whose entry is another than before: whoever remembers them must be told."""
        self._operations: dict[str, Callable[[Fields], Fields]] = {
            "name.find": self._find,
            "name.assign": self._assign,
            "name.remove": self._remove,
        }

    def knows(self, operation: str) -> bool:
        return operation in self._operations

    def run(self, operation: str, fields: Fields) -> Result:
        found = self._operations[operation](fields)
        return found, self._lsn

    def _find(self, fields: Fields) -> Fields:
        entry = self._names.entries.get(_name(fields))
        if entry is None:
            return {"group": 0}
        return {"group": entry.group, "incarnation": entry.incarnation, "kind": entry.kind}

    def _assign(self, fields: Fields) -> Fields:
        name = check_name(_name(fields))
        kind, group = _number(fields, "kind"), _number(fields, "group")
        if kind not in (Kind.QUEUE, Kind.TOPIC):
            raise ProtocolError(f"The name {name!r} can't be given to a destination of the unknown kind {kind}.")
        if group >= 1 << 16:
            raise ProtocolError(f"The name {name!r} can't be given to a group of the number {group}.")
        if name not in self._names.entries:
            check_spelling(name, "name", InvalidDestination)
            if len(self._names.entries) >= NAMES_MAX:
                raise ResourceExhausted(f"There are {NAMES_MAX} names, which is the most; delete some destinations.")
            record = {"name": name, "kind": kind, "group": group, "incarnation": self._names.next_incarnation}
            self._lsn = self._ledger.append(RecordKind.NAME, write_map(record))
            self._names.apply_assign(record)
            self.changed.append(name)
        return self._find(fields)

    def _remove(self, fields: Fields) -> Fields:
        name, incarnation = _name(fields), _number(fields, "incarnation")
        entry = self._names.entries.get(name)
        if entry is None or entry.incarnation != incarnation:
            return {"removed": False}
        record = {"name": name, "incarnation": incarnation}
        self._lsn = self._ledger.append(RecordKind.UNNAME, write_map(record))
        self._names.apply_remove(record)
        self.changed.append(name)
        return {"removed": True}


def _name(fields: Fields) -> str:
    name = fields.get("name")
    if not isinstance(name, str):
        raise ProtocolError("A request about a name must have the field 'name', a text.")
    return name


def _number(fields: Fields, field: str) -> int:
    number = fields.get(field)
    if not isinstance(number, int) or number < 1:
        raise ProtocolError(f"A request about a name must have the field {field!r}, a number from 1 on.")
    return number
