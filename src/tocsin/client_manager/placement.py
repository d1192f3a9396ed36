"""The destination service: which group has a destination.

Names are looked up in the group of their slot. The first who assigns a name decides where it lives; whoever comes
second is told the same place. Silence of the slot's group means to wait: nothing is created elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tocsin.client_manager.spreading import Spread
from tocsin.cluster.commands import Answer, Failed
from tocsin.cluster.envelope import GroupStatus
from tocsin.cluster.slots import SlotTable
from tocsin.model.destination import DEAD_MESSAGES, DEAD_OF, Destination, Kind, parse_destination
from tocsin.model.errors import InvalidDestination, TocsinError
from tocsin.model.limits import NAMES_CACHED_MAX

Ask = Callable[[int, str, dict[str, Any], Callable[[Answer | Failed], None]], None]
"""(group, operation, fields, what to do with the answer)."""


@dataclass(frozen=True, slots=True)
class Place:
    group: int
    incarnation: int
    """0: there is no entry, the name itself says where it is."""
    kind: Kind | None = None


Then = Callable[[Place | TocsinError], None]


@dataclass(slots=True)
class _Lookup:
    waiting: list[tuple[Destination, bool, Then]] = field(default_factory=list)
    outdated: bool = False
    """The entry changed while the answer was on its way."""


class Places:
    def __init__(self, slots: SlotTable, groups: Sequence[int], ask: Ask) -> None:
        self.groups = tuple(sorted(groups))
        self._slots = slots
        self._ask = ask
        self._known: dict[str, Place] = {}
        self._lookups: dict[str, _Lookup] = {}
        self._status: dict[int, GroupStatus] = {}
        self._spread = Spread()

    def slot_group(self, name: str) -> int:
        return self._slots.group_of(name)

    def locate(self, address: Destination, creates: bool, then: Then) -> None:
        """Finds a destination; a name that nobody has is given a place when that `creates` it."""
        name = address.name
        if name.startswith(DEAD_OF):
            self._locate_dead(name, then)
        elif name.startswith("_"):
            # Temporary ones and those of the system have no entry: they live where their slot is.
            then(Place(self.slot_group(name), 0))
        elif len(self.groups) == 1:
            then(Place(self.groups[0], 0))
        elif name in self._known:
            self._tell(self._known[name], address, then)
        else:
            lookup = self._lookups.get(name)
            if lookup is None:
                lookup = self._lookups[name] = _Lookup()
                self._find(name)
            lookup.waiting.append((address, creates, then))

    def _locate_dead(self, name: str, then: Then) -> None:
        """Each group has its dead messages: those of a destination are where it is, or anywhere when it is gone."""

        def found(place: Place | TocsinError) -> None:
            gone = isinstance(place, InvalidDestination)
            group = place.group if isinstance(place, Place) else self.slot_group(DEAD_MESSAGES)
            then(Place(group, 0) if gone or isinstance(place, Place) else place)

        self.locate(parse_destination(name.removeprefix(DEAD_OF)), False, found)

    def _find(self, name: str) -> None:
        self._lookups[name].outdated = False
        self._ask(self.slot_group(name), "name.find", {"name": name}, partial(self._found, name))

    def _found(self, name: str, reply: Answer | Failed) -> None:
        lookup = self._lookups[name]
        if lookup.outdated:
            self._find(name)
            return
        if isinstance(reply, Failed):
            self._finish(name, reply.error)
            return
        group = reply.fields.get("group", 0)
        if group:
            self._finish(name, self._remember(name, reply.fields))
            return
        for each in [each for each in lookup.waiting if not each[1]]:
            lookup.waiting.remove(each)
            each[2](InvalidDestination(f"There is no {each[0].kind.word} {name!r}."))
        if not lookup.waiting:
            del self._lookups[name]
            return
        kind = int(lookup.waiting[0][0].kind)
        fields = {"name": name, "kind": kind, "group": self.choose(name)}
        self._ask(self.slot_group(name), "name.assign", fields, partial(self._found, name))

    def _remember(self, name: str, fields: dict[str, Any]) -> Place:
        if len(self._known) >= NAMES_CACHED_MAX:
            del self._known[next(iter(self._known))]
        place = Place(int(fields["group"]), int(fields["incarnation"]), Kind(int(fields["kind"])))
        self._known[name] = place
        return place

    def _finish(self, name: str, found: Place | TocsinError) -> None:
        for address, _, then in self._lookups.pop(name).waiting:
            if isinstance(found, Place):
                self._tell(found, address, then)
            else:
                then(found)

    def _tell(self, place: Place, address: Destination, then: Then) -> None:
        if place.kind is not None and place.kind is not address.kind:
            words = place.kind.word, address.kind.word
            then(InvalidDestination(f"{address.name!r} is a {words[0]}, not a {words[1]}."))
        else:
            then(place)

    def choose(self, name: str) -> int:
        """Where a new destination goes: each group that is heard gets its share."""
        return self._spread.choose(name, self._status) if self._status else self.slot_group(name)

    # ---- news

    def status(self, group: int, status: GroupStatus) -> None:
        """What the primary of a group says of it."""
        if group in self.groups:
            self._status[group] = status

    def silent(self, group: int) -> None:
        """Nothing new goes to a group that has no primary, as far as we know."""
        self._status.pop(group, None)

    def changed(self, name: str) -> None:
        self._known.pop(name, None)
        if name in self._lookups:
            self._lookups[name].outdated = True

    def outdated(self, name: str, place: Place) -> None:
        """The group there says that this is not the name's place any more."""
        if self._known.get(name) == place:
            del self._known[name]
