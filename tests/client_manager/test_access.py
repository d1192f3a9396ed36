from __future__ import annotations

from dataclasses import dataclass

import pytest

from tocsin.client_manager.access import Action, authorize, temporary_name
from tocsin.model.errors import AccessDenied, InvalidDestination
from tocsin.model.identity import unique_id


@dataclass(frozen=True)
class Who:
    principal: str | None
    identity: bytes = unique_id(1, 2, 3, 4)


ANNA = Who("anna")


@pytest.mark.parametrize("action", Action)
def test_ordinary_names_are_open_to_all_who_are_in(action: Action) -> None:
    authorize(Who(None), action, "orders")
    authorize(ANNA, action, "orders")


@pytest.mark.parametrize("action", [each for each in Action if each is not Action.CREATE])
def test_a_temporary_destination_is_its_connections_and_others_send_to_it(action: Action) -> None:
    name = temporary_name(ANNA.identity, "5.1")
    authorize(ANNA, action, name)
    for other in (Who("anna", unique_id(1, 2, 3, 5)), Who(None, unique_id(1, 2, 3, 0x41))):
        if action is Action.PUBLISH:
            authorize(other, action, name)
        else:
            with pytest.raises(InvalidDestination, match="only the connection that created it"):
                authorize(other, action, name)


def test_a_temporary_destination_is_not_created_by_its_name() -> None:
    with pytest.raises(InvalidDestination):
        authorize(ANNA, Action.CREATE, temporary_name(ANNA.identity, "5.1"))


def test_the_dead_message_queue_is_read_and_not_written() -> None:
    for action in (Action.CONSUME, Action.BROWSE, Action.ADMINISTER):
        authorize(ANNA, action, "_DMQ")
    for action in (Action.PUBLISH, Action.STAGE):
        with pytest.raises(AccessDenied):
            authorize(ANNA, action, "_DMQ")
    with pytest.raises(InvalidDestination):
        authorize(ANNA, Action.CREATE, "_DMQ")


@pytest.mark.parametrize("action", Action)
def test_other_names_of_the_system_do_not_exist(action: Action) -> None:
    with pytest.raises(InvalidDestination):
        authorize(ANNA, action, "_private")


def test_messages_are_reported_as_dead_for_where_they_came_from() -> None:
    authorize(ANNA, Action.STAGE, "_DMQ:topic:prices")
    for name in ("_DMQ:queue:_DMQ", "_DMQ:queue:_TMP.1.2"):
        with pytest.raises(AccessDenied):
            authorize(ANNA, Action.STAGE, name)
    for action in set(Action) - {Action.STAGE}:
        with pytest.raises(InvalidDestination):
            authorize(ANNA, action, "_DMQ:topic:prices")
