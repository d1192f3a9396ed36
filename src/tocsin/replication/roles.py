"""The roles of a member and the legal ways between them. `docs/replication.md` draws its diagram from here."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    FOLLOWER = "follower"
    """Stores what the primary orders, or waits for a primary."""
    CATCHING_UP = "catching up"
    """So far behind that it needs a snapshot."""
    CANDIDATE = "candidate"
    """Tries to become primary."""
    PRIMARY = "primary"
    STOPPED = "stopped"
    """Something is wrong that only a person can put right. It still holds what it has promised."""


class Trigger(Enum):
    SILENCE = "no primary is heard"
    TOO_OLD = "the records it needs are in a snapshot only"
    INSTALLED = "the snapshot is in place"
    CHOSEN = "the register names it"
    GAVE_UP = "refused, out of time or not in sync"
    HIGHER_EPOCH = "a later epoch is seen"
    UNSAFE = "the audit fails, or a committed record would be cut"


TRANSITIONS: dict[tuple[Role, Trigger], Role] = {
    (Role.FOLLOWER, Trigger.SILENCE): Role.CANDIDATE,
    (Role.FOLLOWER, Trigger.TOO_OLD): Role.CATCHING_UP,
    (Role.FOLLOWER, Trigger.HIGHER_EPOCH): Role.FOLLOWER,
    (Role.FOLLOWER, Trigger.UNSAFE): Role.STOPPED,
    (Role.CATCHING_UP, Trigger.INSTALLED): Role.FOLLOWER,
    (Role.CATCHING_UP, Trigger.GAVE_UP): Role.FOLLOWER,
    (Role.CATCHING_UP, Trigger.HIGHER_EPOCH): Role.FOLLOWER,
    (Role.CANDIDATE, Trigger.CHOSEN): Role.PRIMARY,
    (Role.CANDIDATE, Trigger.GAVE_UP): Role.FOLLOWER,
    (Role.CANDIDATE, Trigger.HIGHER_EPOCH): Role.FOLLOWER,
    (Role.CANDIDATE, Trigger.UNSAFE): Role.STOPPED,
    (Role.PRIMARY, Trigger.HIGHER_EPOCH): Role.FOLLOWER,
}


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {_name(Role.FOLLOWER)}"]
    lines += [
        f"    {_name(role)} --> {_name(following)}: {trigger.value}"
        for (role, trigger), following in TRANSITIONS.items()
    ]
    return "\n".join(lines)


def _name(role: Role) -> str:
    return role.value.replace(" ", "_")
