"""The one question that every action asks: may this principal do this to that?"""

from __future__ import annotations

from enum import Enum

from tocsin.model.destination import DEAD_MESSAGES, TEMPORARY_PREFIX, WELL_KNOWN
from tocsin.model.errors import AccessDenied, InvalidDestination


class Action(Enum):
    PUBLISH = "publish to"
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
    if name not in WELL_KNOWN:
        raise InvalidDestination(
            f"The name {name!r} begins with an underscore; such names belong to the system ({', '.join(WELL_KNOWN)})."
        )
    if action is Action.PUBLISH and name == DEAD_MESSAGES:
        raise AccessDenied(f"Clients can't publish to {DEAD_MESSAGES}; only the server moves messages there.")
    if action is Action.CREATE:
        raise InvalidDestination(f"{name} belongs to the system and can't be created.")
