"""What a client is told when its command can't be done."""

from __future__ import annotations

from tocsin.cluster.commands import (
    Administer,
    Answer,
    CloseConsumer,
    CloseSession,
    ConsumerEnded,
    Failed,
    NotStored,
    OpenConsumer,
    OpenProducer,
    Publish,
    Reply,
    SettledTo,
    SettleMessages,
    Stored,
)
from tocsin.model.errors import InternalError, TocsinError


def refusal(command: object, error: TocsinError) -> Reply | None:
    """The answer, or None for a command that has none: what it was about is gone."""
    match command:
        case Publish():
            block = command.block
            last = block.first_sequence + block.count - 1
            return NotStored(command.session, command.producer, block.first_sequence, last, error)
        case CloseConsumer() if isinstance(error, InternalError):
            return Failed(command.request, error)
        case SettleMessages() if isinstance(error, InternalError):
            return ConsumerEnded(command.key, error)  # What it said may not have been done.
        case CloseConsumer():
            return Answer(command.request, {})  # It is closed, which is what was wanted.
        case SettleMessages():
            return SettledTo(command.key, command.settle.number)  # There is nothing left to settle.
        case OpenProducer() | OpenConsumer() | CloseSession() | Administer():
            return Failed(command.request, error)
        case _:
            return None


def in_place_of(reply: Reply, error: TocsinError) -> Reply | None:
    """What is said instead of an answer that can't be written; None where nobody waits for it."""
    match reply:
        case Answer() | Failed():
            return Failed(reply.request, error)
        case Stored() | NotStored():
            return None
        case _:
            return ConsumerEnded(reply.key, error)
