"""The durable subscriptions of a group, by client id and name, and whose they are.

A subscription that was made before there were owners, or where nobody has to log in, is nobody's: everybody may use it.
Where nobody has to log in, everybody may use every one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, MutableMapping

from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.view import Subscription, View
from tocsin.model.errors import AccessDenied, InvalidClientId
from tocsin.model.spelling import check_spelling

SubscriptionKey = tuple[str | None, str]
"""(client id, name) of a durable subscription: unique over all topics."""
Found = tuple[DestinationState, View]


class Subscriptions(MutableMapping[SubscriptionKey, Found]):
    __slots__ = ("_by_key", "_owners", "_owners_by_client")

    def __init__(self) -> None:
        self._by_key: dict[SubscriptionKey, Found] = {}
        # How many each user has, and whose those of a client id are.
        self._owners: Counter[str | None] = Counter()
        self._owners_by_client: dict[str, Counter[str | None]] = {}

    def __getitem__(self, key: SubscriptionKey) -> Found:
        return self._by_key[key]

    def __setitem__(self, key: SubscriptionKey, found: Found) -> None:
        if key in self._by_key:
            del self[key]
        self._by_key[key] = found
        owner = _owner(found)
        self._owners[owner] += 1
        if key[0] is not None:
            self._owners_by_client.setdefault(key[0], Counter())[owner] += 1

    def __delitem__(self, key: SubscriptionKey) -> None:
        owner = _owner(self._by_key.pop(key))
        _less(self._owners, owner)
        if key[0] is not None:
            of_client = self._owners_by_client[key[0]]
            _less(of_client, owner)
            if not of_client:
                del self._owners_by_client[key[0]]

    def __iter__(self) -> Iterator[SubscriptionKey]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def owned(self, user: str) -> int:
        """How many subscriptions a user has."""
        return self._owners[user]

    def check_client_id(self, client_id: str, user: str | None) -> None:
        """Refuses a client id that another user has durable subscriptions with, and a new one that is misleading."""
        if client_id not in self._owners_by_client:
            check_spelling(client_id, "client id", InvalidClientId)
        self.check_client_owner(client_id, user)

    def check_client_owner(self, client_id: str, user: str | None) -> None:
        """Refuses a client id that another user has durable subscriptions with."""
        owners = self._owners_by_client.get(client_id)
        if owners is not None and user is not None and user not in owners and None not in owners:
            raise InvalidClientId(
                f"The client id {client_id!r} belongs to another user, who has durable subscriptions with it."
            )


def check_owner(known: Subscription, user: str | None) -> None:
    """Refuses a user whose subscription it is not."""
    if known.owner is not None and user is not None and known.owner != user:
        raise AccessDenied(f"The subscription {known.name!r} belongs to another user; only its owner can use it.")


def _owner(found: Found) -> str | None:
    known = found[1].subscription
    return None if known is None else known.owner


def _less(counter: Counter[str | None], owner: str | None) -> None:
    counter[owner] -= 1
    if not counter[owner]:
        del counter[owner]
