"""Blocks in, confirmations out. Each block is checked fully once, here at the edge: what passes crashes no consumer."""

from __future__ import annotations

from itertools import pairwise

from tocsin.client_manager.connection import ConnectionState
from tocsin.client_manager.session import SessionState, window_for
from tocsin.cluster.commands import NotStored, Publish, Stored
from tocsin.model.batch import Block, Column, check_block
from tocsin.model.dead_notes import lack_of_notes
from tocsin.model.destination import DEAD_OF
from tocsin.model.errors import AccessDenied, MessageTooLarge, ProtocolError, TocsinError, text_of
from tocsin.model.values import Bytes
from tocsin.wire.frames import Confirm, FrameType, control, read_publish
from tocsin.wire.reader import FrameReader


def take_block(
    connection: ConnectionState, session: SessionState, payload: Bytes, message_bytes_max: int
) -> Publish | bytes:
    """The command for a PUBLISH frame, or the REFUSED frame that answers it. A forged block ends the connection."""
    publish = read_publish(payload)
    producer = session.producers.get(publish.producer)
    if producer is None:
        raise ProtocolError(f"Producer {publish.producer} is not open.")
    block = check_block(publish.block)
    if (block.producer_id, block.connection_id) != (session.id, connection.identity):
        raise ProtocolError("A batch names another producer or connection than the one that sent it.")
    error: TocsinError | None = _forgery(block)
    destination = producer.destination
    if destination.name.startswith(DEAD_OF):
        error = error or lack_of_notes(block, destination)
    elif (block.destination, block.destination_kind) != (destination.name, destination.kind):
        raise ProtocolError("A batch names another destination than its producer.")
    last = block.first_sequence + block.count - 1
    if not producer.take(last, len(publish.block)):
        raise ProtocolError("A producer sent more than its credit allows.")
    size = _largest(block) if block.length > message_bytes_max else 0
    if size > message_bytes_max:
        error = MessageTooLarge(f"A message of {size} bytes is over the largest message of {message_bytes_max} bytes.")
    if error is not None:
        producer.settle(last, 0)
        return refused(session.number, NotStored(session.id, publish.producer, block.first_sequence, last, error))
    return Publish(session.id, publish.producer, producer.destination_id, block, connection.client_id)


def _forgery(block: Block) -> TocsinError | None:
    """Why a batch is refused that has properties only servers may set, by the names of its columns."""
    for entry in block.directory():
        name = entry[2]
        if name.startswith("JMS") and not name.startswith("JMS_"):
            return AccessDenied(
                f"No client can set a property called {name[:80]!r}: of the names that begin with JMS only those that "
                "begin with JMS_ are free. Message groups have columns of their own."
            )
    return None


def rehearse(data: bytes) -> None:
    """Checks a frame once more that was checked already, and forgets it.

    For one who waits awake: while the disk was at work, the processor's caches went to others. What is done with the
    next message is in them again, when something just like it was done a moment before.
    """
    reader = FrameReader(len(data))
    try:
        for frame in reader.feed(data):
            if frame.type is FrameType.PUBLISH:
                check_block(read_publish(frame.payload).block)
    except TocsinError:
        return  # A frame that came in pieces: this was the last of them.


def _largest(block: Block) -> int:
    body = block.column(Column.BODY)
    if body is None or body.offsets is None:
        return 0
    ends = body.offsets.tolist()
    return max(end - start for start, end in pairwise(ends))


def confirm(session: SessionState, stored: Stored, producers: int) -> None:
    """Notes a confirmation for the end of this turn; a later one of the same producer replaces it."""
    producer = session.producers.get(stored.producer)
    if producer is not None:
        credit = producer.settle(stored.sequence, window_for(producers))
        session.confirms[stored.producer] = Confirm(stored.producer, stored.copies, stored.sequence, credit)


def refused(session_number: int, answer: NotStored) -> bytes:
    places = {"producer": answer.producer, "first": answer.first, "last": answer.last}
    return control(
        FrameType.REFUSED, session_number, {**places, "code": answer.error.code, "text": text_of(answer.error)}
    )
