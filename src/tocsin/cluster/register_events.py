"""What goes into the machines of the register and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tocsin.cluster.vote import Vote

Message = TypeVar("Message", covariant=True)


@dataclass(frozen=True, slots=True)
class Received(Generic[Message]):
    """Event: a message of another node, or of a machine on the same one."""

    sender: int
    message: Message


@dataclass(slots=True)
class VoteSaved:
    """Event: the vote with this number, and all before it, are durable."""

    number: int


@dataclass(frozen=True, slots=True)
class Send(Generic[Message]):
    """Effect: a message for some nodes, which may include the sender's own. It may be lost or come twice."""

    receivers: tuple[int, ...]
    message: Message


@dataclass(slots=True)
class SaveVote:
    """Effect: make this vote durable, then say VoteSaved. Later votes replace earlier ones."""

    number: int
    vote: Vote
