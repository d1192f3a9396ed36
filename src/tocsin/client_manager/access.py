"""The one question that every action asks: may this principal do this to that?"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from tocsin.model.destination import DEAD_MESSAGES, DEAD_OF, TEMPORARY_PREFIX, WELL_KNOWN, parse_destination
from tocsin.model.errors import AccessDenied, InvalidDestination
from tocsin.model.identity import show_id


class Action(Enum):
    PUBLISH = "publish to"
    STAGE = "stage messages for"
    CONSUME = "consume from"
    BROWSE = "look into"
    CREATE = "create"
    ADMINISTER = "administer"


class Principal(Protocol):
    """Who asks: a connection, and the user who logged in on it."""

    @property
    def principal(self) -> str | None:
        """The user; None where nobody has to log in."""

    @property
    def identity(self) -> bytes:
        """Of the connection, which has proved it when it came back with it."""


def authorize(who: Principal, action: Action, name: str) -> None:
    """Raises AccessDenied or InvalidDestination with the reason; returns when the action is allowed.

    Every user that has logged in may use every destination; names that begin with an underscore follow the rules of
    the system whoever asks. A temporary destination is its connection's alone, and others can only send to it. What
    belongs to a user, a subscription or a client id, is looked after by the message manager that keeps it.
    """
    if not name.startswith("_"):
        return
    if name.startswith(TEMPORARY_PREFIX):
        _check_temporary(who, action, name)
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


def temporary_name(connection: bytes, serial: str) -> str:
    """The name of a temporary destination says whose it is."""
    return f"{TEMPORARY_PREFIX}{show_id(connection)}.{serial}"


def _check_temporary(who: Principal, action: Action, name: str) -> None:
    if action is Action.CREATE:
        raise InvalidDestination(f"{name!r} can't be created by its name; ask for a temporary destination instead.")
    if action is not Action.PUBLISH and not name.startswith(temporary_name(who.identity, "")):
        raise InvalidDestination(
            f"{name!r} is temporary: only the connection that created it may {action.value} it; others can send to it."
        )


def _check_origin(name: str) -> None:
    """Who reports messages as dead says where they come from: a destination that they can be sent back to."""
    origin = parse_destination(name.removeprefix(DEAD_OF))
    if origin.name.startswith("_"):
        raise AccessDenied(f"Messages of {origin} can't be reported as dead; only those of ordinary destinations can.")
