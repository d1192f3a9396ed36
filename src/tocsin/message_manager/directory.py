"""Which destinations exist, by id and by name. One name is one destination, whatever its kind."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any

from tocsin.message_manager.destination import DestinationState, Options
from tocsin.message_manager.ledger import DropStream, Ledger
from tocsin.message_manager.names import Names
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.message_manager.stages import Epochs
from tocsin.message_manager.subscriptions import Found, SubscriptionKey, Subscriptions
from tocsin.message_manager.view import Subscription, View
from tocsin.model.destination import DEAD_MESSAGES, DEAD_OF, Destination, Kind, stored_name
from tocsin.model.errors import InvalidDestination, ResourceExhausted, StaleName
from tocsin.model.limits import (
    DELETED_NAMES_MAX,
    DESTINATIONS_MAX,
    DESTINATIONS_PER_USER_MAX,
    SESSION_EPOCHS_MAX,
    TEMPORARIES_PER_USER_MAX,
)
from tocsin.model.spelling import check_spelling

NO_DESTINATION = 0
"""An id that none has: in a DELETE record of a name that none ever had."""


class Directory:
    __slots__ = (
        "_by_name", "_names", "_temporaries", "by_id", "cluster", "defaults", "deleted", "durable", "epochs", "host",
        "lsn", "made", "names", "next_id", "session_epochs", "temporary_made", "volatile",
    )  # fmt: skip

    def __init__(self, defaults: Options, cluster: str = "", host: str = "") -> None:
        self.defaults = defaults
        # Which cluster or lone server this is: a part of the identity of all that is created here.
        self.cluster = cluster
        self.host = host
        self.by_id: dict[int, DestinationState] = {}
        self._by_name: dict[str, DestinationState] = {}
        self._names: list[str] = []
        # Temporary destinations of each connection, by their ids.
        self._temporaries: dict[bytes, dict[int, DestinationState]] = {}
        self.next_id = 1
        self.lsn = 0
        self.durable = Subscriptions()
        # Named subscriptions that are not durable, in the same way.
        self.volatile: dict[SubscriptionKey, Found] = {}
        # How many destinations each user has made, and how many temporary ones each user, or a connection of nobody.
        self.made: Counter[str] = Counter()
        self.temporary_made: Counter[str | bytes] = Counter()
        # The last incarnation of names that were deleted here, the oldest deletion first.
        self.deleted: dict[str, int] = {}
        # Sessions that have moved between client managers, and their last epoch, the oldest move first.
        self.session_epochs: dict[bytes, int] = {}
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
        self,
        address: Destination,
        ledger: Ledger,
        incarnation: int = 0,
        *,
        lasting: bool = False,
        user: str | None = None,
    ) -> DestinationState:
        """With `lasting`, a topic that is made here is retained: nobody can have subscribed to it yet."""
        if address.name in self._by_name:
            return self.find(address)
        if address.name.startswith(DEAD_OF) and address.kind is Kind.QUEUE:
            return self.dead_messages(ledger)
        if address.name.startswith("_"):
            raise InvalidDestination(f"There is no {address.kind.word} {address.name!r}; it may have been deleted.")
        options = replace(self.defaults, retained=True) if lasting and address.kind is Kind.TOPIC else self.defaults
        return self.create(address, options, None, ledger, incarnation, user)

    def create(
        self, address: Destination, options: Options, connection: bytes | None, ledger: Ledger, incarnation: int = 0,
        user: str | None = None,
    ) -> DestinationState:  # fmt: skip
        """`user` is who owns it: the one who made it, None where nobody has to log in."""
        if len(self.by_id) >= DESTINATIONS_MAX:
            raise ResourceExhausted(
                f"There are {DESTINATIONS_MAX} destinations, which is the most; delete some that are not needed."
            )
        check_spelling(address.name, "name", InvalidDestination)
        self._check_quota(connection, user)
        fields: dict[str, Any] = {
            "id": self.next_id, "name": address.name, "kind": int(address.kind), "connection": connection,
            "incarnation": incarnation, "born": ledger.now_ms, "cluster": self.cluster, "owner": user,
            **options.fields(),
        }  # fmt: skip
        lsn = ledger.append(RecordKind.CREATE, write_map(fields))
        return self.apply_create(fields, lsn)

    def _check_quota(self, connection: bytes | None, user: str | None) -> None:
        """Nobody can have all destinations there are."""
        if connection is not None and self.temporary_made[user or connection] >= TEMPORARIES_PER_USER_MAX:
            whose = "A connection" if user is None else "A user"
            raise ResourceExhausted(
                f"{whose} has at most {TEMPORARIES_PER_USER_MAX} temporary destinations; delete some that are not"
                " needed."
            )
        if connection is None and user is not None and self.made[user] >= DESTINATIONS_PER_USER_MAX:
            raise ResourceExhausted(
                f"A user has made at most {DESTINATIONS_PER_USER_MAX} destinations that are there; delete some that are"
                " not needed."
            )

    def _count(self, state: DestinationState, by: int) -> None:
        if state.connection is not None:
            key = state.owner or state.connection
            self.temporary_made[key] += by
            if not self.temporary_made[key]:
                del self.temporary_made[key]
        elif state.owner is not None:
            self.made[state.owner] += by

    def apply_create(self, fields: dict[str, Any], lsn: int) -> DestinationState:
        connection = fields["connection"]
        address = Destination(Kind(fields["kind"]), fields["name"], connection is not None)
        # Records of a former release lack what came later.
        options = Options(**{name: fields.get(name, value) for name, value in Options().fields().items()})
        state = DestinationState(fields["id"], address, options, connection, fields.get("incarnation", 0))
        state.born = fields.get("born", 0)
        state.cluster = fields.get("cluster", "")
        state.owner = fields.get("owner")
        self.adopt(state)
        state.lsn = self.lsn = lsn
        return state

    def adopt(self, state: DestinationState) -> None:
        self.by_id[state.id] = state
        self._count(state, 1)
        self._by_name[state.address.name] = state
        insort(self._names, state.address.name)
        if state.connection is not None:
            self._temporaries.setdefault(state.connection, {})[state.id] = state
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
        self._count(state, -1)
        self.bury(state.address.name, state.incarnation)
        del self._by_name[state.address.name]
        del self._names[bisect_left(self._names, state.address.name)]
        self._forget_temporary(state)
        for view in state.views.values():
            self.forget_subscription(state, view)
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

    def note_subscription(self, state: DestinationState, view: View) -> None:
        """A subscription that has a name can be found by it."""
        known = view.subscription
        if known is not None and known.name is not None:
            self._named(known)[known.client_id, known.name] = (state, view)

    def forget_subscription(self, state: DestinationState, view: View) -> None:
        known = view.subscription
        if known is not None and known.name is not None:
            named, key = self._named(known), (known.client_id, known.name)
            if named.get(key) == (state, view):
                del named[key]

    def _named(self, known: Subscription) -> MutableMapping[SubscriptionKey, Found]:
        return self.durable if known.durable else self.volatile

    def _forget_temporary(self, state: DestinationState) -> None:
        if state.connection is not None:
            own = self._temporaries[state.connection]
            del own[state.id]
            if not own:
                del self._temporaries[state.connection]

    def temporaries_of(self, connection: bytes) -> list[DestinationState]:
        return list(self._temporaries.get(connection, {}).values())

    def renounce(self, name: str, incarnation: int, ledger: Ledger) -> int:
        """What the directory of names gave a place here was never made, and will not be: returns the LSN."""
        fields = {"id": NO_DESTINATION, "name": name, "incarnation": incarnation}
        self.lsn = ledger.append(RecordKind.DELETE, write_map(fields))
        self.bury(name, incarnation)
        return self.lsn

    def bury(self, name: str, incarnation: int) -> None:
        """Who still means this one of its name is told so."""
        if incarnation:
            former = self.deleted.pop(name, 0)
            self.deleted[name] = max(former, incarnation)
            if len(self.deleted) > DELETED_NAMES_MAX:
                del self.deleted[next(iter(self.deleted))]

    def note_session(self, session: bytes, epoch: int, ledger: Ledger) -> None:
        """A session speaks in an epoch. One that has come from another client manager is remembered: that one may not
        have noticed yet, and what it says of the session is old, also to the next primary.
        """
        if epoch > self.session_epochs.get(session, 0):
            fields = {"session": session, "epoch": epoch}
            self.lsn = ledger.append(RecordKind.SESSION, write_map(fields))
            self.apply_session(fields)

    def apply_session(self, fields: dict[str, Any]) -> None:
        self.session_epochs.pop(fields["session"], None)
        self.session_epochs[fields["session"]] = fields["epoch"]
        if len(self.session_epochs) > SESSION_EPOCHS_MAX:
            del self.session_epochs[next(iter(self.session_epochs))]

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
        names = self._names
        low = max(bisect_left(names, prefix), bisect_right(names, after) if after else 0)
        # Those with the prefix are next to each other.
        found = list(takewhile(lambda name: name.startswith(prefix), islice(names, low, low + limit + 1)))
        return [self._by_name[name] for name in found[:limit]], len(found) > limit
