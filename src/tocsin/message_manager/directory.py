"""Which destinations exist, by id and by name. One name is one destination, whatever its kind."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tocsin.message_manager.destination import DestinationState, Options
from tocsin.message_manager.ledger import DropStream, Ledger
from tocsin.message_manager.names import Names
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.message_manager.stages import Epochs
from tocsin.message_manager.view import View
from tocsin.model.destination import DEAD_MESSAGES, DEAD_OF, Destination, Kind, stored_name
from tocsin.model.errors import InvalidDestination, ResourceExhausted, StaleName
from tocsin.model.limits import DELETED_NAMES_MAX, DESTINATIONS_MAX

SubscriptionKey = tuple[str | None, str]
"""(client id, name) of a durable subscription: unique over all topics."""


class Directory:
    __slots__ = (
        "_by_name", "_names", "by_id", "cluster", "defaults", "deleted", "durable", "epochs", "host", "lsn", "names",
        "next_id",
    )  # fmt: skip

    def __init__(self, defaults: Options, cluster: str = "", host: str = "") -> None:
        self.defaults = defaults
        # Which cluster or lone server this is: a part of the identity of all that is created here.
        self.cluster = cluster
        self.host = host
        self.by_id: dict[int, DestinationState] = {}
        self._by_name: dict[str, DestinationState] = {}
        self._names: list[str] = []
        self.next_id = 1
        self.lsn = 0
        self.durable: dict[SubscriptionKey, tuple[DestinationState, View]] = {}
        # The last incarnation of names that were deleted here, the oldest deletion first.
        self.deleted: dict[str, int] = {}
        # The group's part of the directory of names, which is about destinations of all groups.
        self.names = Names()
        # What applications have committed in this group.
        self.epochs = Epochs()

    def __iter__(self) -> Iterator[DestinationState]:
        return iter(list(self.by_id.values()))

    def has(self, name: str) -> bool:
        return name in self._by_name

    def named(self, name: str) -> DestinationState | None:
        return self._by_name.get(stored_name(name))

    def find(self, address: Destination) -> DestinationState:
        """The destination, which must exist and be of that kind."""
        state = self._by_name.get(address.name)
        if state is None:
            raise InvalidDestination(f"There is no {address.kind.word} {address.name!r}.")
        if state.address.kind is not address.kind:
            raise InvalidDestination(f"{address.name!r} is a {state.address.kind.word}, not a {address.kind.word}.")
        return state

    def outdated(self, name: str, incarnation: int, ledger: Ledger) -> DestinationState | None:
        """The destination that must give way to a newer one of its name; StaleName when the newer one is here."""
        state = self._by_name.get(name)
        known = self.deleted.get(name, 0) + 1 if state is None else state.incarnation
        if known > incarnation:
            raise StaleName(f"{name!r} has been deleted since its place was looked up; look it up again.")
        if state is None or known == incarnation:
            return None
        if known:
            return state
        # It is older than the directory of names: it keeps its messages and gets the incarnation.
        fields = {"id": state.id, "incarnation": incarnation}
        self.apply_adopt(fields, ledger.append(RecordKind.ADOPT, write_map(fields)))
        return None

    def apply_adopt(self, fields: dict[str, Any], lsn: int) -> None:
        state = self.by_id.get(fields["id"])
        if state is not None:
            state.incarnation, state.lsn = fields["incarnation"], lsn

    def find_or_create(
        self, address: Destination, ledger: Ledger, incarnation: int = 0, *, lasting: bool = False
    ) -> DestinationState:
        """With `lasting`, a topic that is made here is retained: nobody can have subscribed to it yet."""
        if address.name in self._by_name:
            return self.find(address)
        if address.name.startswith(DEAD_OF) and address.kind is Kind.QUEUE:
            return self.dead_messages(ledger)
        if address.name.startswith("_"):
            raise InvalidDestination(f"There is no {address.kind.word} {address.name!r}; it may have been deleted.")
        options = replace(self.defaults, retained=True) if lasting and address.kind is Kind.TOPIC else self.defaults
        return self.create(address, options, None, ledger, incarnation)

    def create(
        self, address: Destination, options: Options, connection: bytes | None, ledger: Ledger, incarnation: int = 0
    ) -> DestinationState:
        if len(self.by_id) >= DESTINATIONS_MAX:
            raise ResourceExhausted(
                f"There are {DESTINATIONS_MAX} destinations, which is the most; delete some that are not needed."
            )
        fields: dict[str, Any] = {
            "id": self.next_id, "name": address.name, "kind": int(address.kind), "connection": connection,
            "incarnation": incarnation, "born": ledger.now_ms, "cluster": self.cluster,
            **options.fields(),
        }  # fmt: skip
        lsn = ledger.append(RecordKind.CREATE, write_map(fields))
        return self.apply_create(fields, lsn)

    def apply_create(self, fields: dict[str, Any], lsn: int) -> DestinationState:
        connection = fields["connection"]
        address = Destination(Kind(fields["kind"]), fields["name"], connection is not None)
        # Records of a former release lack what came later.
        options = Options(**{name: fields.get(name, value) for name, value in Options().fields().items()})
        state = DestinationState(fields["id"], address, options, connection, fields.get("incarnation", 0))
        state.born = fields.get("born", 0)
        state.cluster = fields.get("cluster", "")
        self.adopt(state)
        state.lsn = self.lsn = lsn
        return state

    def adopt(self, state: DestinationState) -> None:
        self.by_id[state.id] = state
        self._by_name[state.address.name] = state
        insort(self._names, state.address.name)
        self.next_id = max(self.next_id, state.id + 1)

    def delete(self, state: DestinationState, ledger: Ledger) -> int:
        fields = {"id": state.id, "name": state.address.name, "incarnation": state.incarnation}
        lsn = ledger.append(RecordKind.DELETE, write_map(fields))
        self.apply_delete(state.id, lsn, ledger)
        return lsn

    def apply_delete(self, destination_id: int, lsn: int, ledger: Ledger | None) -> None:
        self.lsn = lsn
        state = self.by_id.pop(destination_id, None)
        if state is None:
            return
        self.bury(state.address.name, state.incarnation)
        del self._by_name[state.address.name]
        self._names.remove(state.address.name)
        for key in [key for key, (owner, _) in self.durable.items() if owner is state]:
            del self.durable[key]
        if ledger is not None:
            for index, lsn_of_row in enumerate(state.log.lsns):
                if state.log.needed[index] or state.options.retained:
                    ledger.release(lsn_of_row)
            for batch in state.delayed.clear():
                ledger.release(batch.lsn)
            for staged in state.stages.lsns():
                ledger.release(staged)
            if state.options.retained:
                ledger.drop_stream(DropStream(state.id, None), lsn)

    def bury(self, name: str, incarnation: int) -> None:
        """Who still means this one of its name is told so."""
        if incarnation:
            former = self.deleted.pop(name, 0)
            self.deleted[name] = max(former, incarnation)
            if len(self.deleted) > DELETED_NAMES_MAX:
                del self.deleted[next(iter(self.deleted))]

    def dead_messages(self, ledger: Ledger) -> DestinationState:
        state = self._by_name.get(DEAD_MESSAGES)
        if state is None:
            options = Options(redelivery_limit=0)
            state = self.create(Destination(Kind.QUEUE, DEAD_MESSAGES), options, None, ledger)
        return state

    def move_on(self, ledger: Ledger) -> None:
        """A record that changes nothing. Room comes back below the older of two snapshots, each of which needs an LSN
        of its own, and must not wait until somebody sends or acknowledges something.
        """
        dead = self.dead_messages(ledger)
        dead.lsn = ledger.append(RecordKind.FORGET, write_map({"destination": dead.id, "producer": b""}))

    def page(self, prefix: str, after: str, limit: int) -> tuple[list[DestinationState], bool]:
        """Destinations in name order behind a name; and whether there are more."""
        index = bisect_right(self._names, after) if after else 0
        found: list[DestinationState] = []
        while index < len(self._names):
            name = self._names[index]
            index += 1
            if not name.startswith(prefix):
                continue
            if len(found) == limit:
                return found, True
            found.append(self._by_name[name])
        return found, False
