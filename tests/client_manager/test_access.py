from __future__ import annotations

import pytest

from tocsin.client_manager.access import Action, authorize
from tocsin.model.errors import AccessDenied, InvalidDestination


@pytest.mark.parametrize("action", Action)
def test_ordinary_and_temporary_names_are_open_to_all_who_are_in(action: Action) -> None:
    authorize(None, action, "orders")
    authorize("anna", action, "_TMP.1.2.3.4.5")


def test_the_dead_message_queue_is_read_and_not_written() -> None:
    for action in (Action.CONSUME, Action.BROWSE, Action.ADMINISTER):
        authorize("anna", action, "_DMQ")
    for action in (Action.PUBLISH, Action.STAGE):
        with pytest.raises(AccessDenied):
            authorize("anna", action, "_DMQ")
    with pytest.raises(InvalidDestination):
        authorize("anna", Action.CREATE, "_DMQ")


@pytest.mark.parametrize("action", Action)
def test_other_names_of_the_system_do_not_exist(action: Action) -> None:
    with pytest.raises(InvalidDestination):
        authorize("anna", action, "_private")


def test_messages_are_reported_as_dead_for_where_they_came_from() -> None:
    authorize("anna", Action.STAGE, "_DMQ:topic:prices")
    for name in ("_DMQ:queue:_DMQ", "_DMQ:queue:_TMP.1.2"):
        with pytest.raises(AccessDenied):
            authorize("anna", Action.STAGE, name)
    for action in set(Action) - {Action.STAGE}:
        with pytest.raises(InvalidDestination):
            authorize("anna", action, "_DMQ:topic:prices")
