"""The one question that every action asks: may this principal do this to that?"""

from __future__ import annotations

from enum import Enum

from tocsin.model.destination import DEAD_MESSAGES, DEAD_OF, TEMPORARY_PREFIX, WELL_KNOWN, parse_destination
from tocsin.model.errors import AccessDenied, InvalidDestination


class Action(Enum):
    PUBLISH = "publish to"
    STAGE = "stage messages for"
    CONSUME = "consume from"
    BROWSE = "browse"
    CREATE = "create"
    ADMINISTER = "administer"


def authorize(principal: str | None, action: Action, name: str) -> None:
    """Raises AccessDenied or InvalidDestination with the reason; returns when the action is allowed.

    Every user that has logged in may use every destination; names that begin with an underscore follow the rules of
    the system whoever asks.
    """
    if not name.startswith("_") or name.startswith(TEMPORARY_PREFIX):
        return
    if name.startswith(DEAD_OF) and action is Action.STAGE:
        _check_origin(name)
        return
    if name not in WELL_KNOWN:
        raise InvalidDestination(
            f"The name {name!r} begins with an underscore; such names belong to the system ({', '.join(WELL_KNOWN)})."
        )
    if action in (Action.PUBLISH, Action.STAGE) and name == DEAD_MESSAGES:
        raise AccessDenied(f"Clients can't publish to {DEAD_MESSAGES}; only the server moves messages there.")
    if action is Action.CREATE:
        raise InvalidDestination(f"{name} belongs to the system and can't be created.")


def _check_origin(name: str) -> None:
    """Who reports messages as dead says where they come from: a destination that they can be sent back to."""
    origin = parse_destination(name.removeprefix(DEAD_OF))
    if origin.name.startswith("_"):
        raise AccessDenied(f"Messages of {origin} can't be reported as dead; only those of ordinary destinations can.")
