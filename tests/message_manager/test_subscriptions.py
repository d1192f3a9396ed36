from __future__ import annotations

import pytest

from tocsin.message_manager.destination import DestinationState, Options
from tocsin.message_manager.subscriptions import Found, Subscriptions, check_owner
from tocsin.message_manager.view import Subscription, View
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import AccessDenied, InvalidClientId

TOPIC = DestinationState(1, Destination(Kind.TOPIC, "t"), Options(), None)


def found(owner: str | None, client_id: str | None = "c") -> Found:
    return TOPIC, View(1, 0, Subscription("s", client_id, True, False, None, False, owner))


def test_subscriptions_are_counted_by_their_owner() -> None:
    subscriptions = Subscriptions()
    subscriptions["c", "s"] = found("anna")
    subscriptions["c", "s"] = found("ben")
    subscriptions["c", "s2"] = found("ben")
    subscriptions[None, "s"] = found("ben", None)
    assert (subscriptions.owned("anna"), subscriptions.owned("ben"), len(subscriptions)) == (0, 3, 3)
    del subscriptions["c", "s"]
    assert subscriptions.owned("ben") == 2
    assert subscriptions.pop(("c", "s"), None) is None


def test_a_client_id_is_its_owners_as_long_as_there_are_subscriptions_with_it() -> None:
    subscriptions = Subscriptions()
    subscriptions.check_client_id("c", "ben")
    subscriptions["c", "s"] = found("anna")
    subscriptions.check_client_id("c", "anna")
    subscriptions.check_client_id("c", None)
    with pytest.raises(InvalidClientId, match="belongs to another user"):
        subscriptions.check_client_id("c", "ben")
    del subscriptions["c", "s"]
    subscriptions.check_client_id("c", "ben")


def test_a_misleading_client_id_is_refused_unless_it_exists() -> None:
    subscriptions = Subscriptions()
    for client_id in ("u\u0308", "a\u202eb"):
        with pytest.raises(InvalidClientId):
            subscriptions.check_client_id(client_id, None)
        subscriptions[client_id, "s"] = found(None, client_id)
        subscriptions.check_client_id(client_id, "anna")


@pytest.mark.parametrize(("owner", "user"), [(None, None), (None, "ben"), ("anna", None), ("anna", "anna")])
def test_who_may_use_a_subscription(owner: str | None, user: str | None) -> None:
    known = found(owner)[1].subscription
    assert known is not None
    check_owner(known, user)
    with pytest.raises(AccessDenied):
        check_owner(Subscription("s", None, True, True, None, False, "anna"), "ben")
