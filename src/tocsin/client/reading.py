"""Reading ranges of offsets, and what there is to know and to keep of them; in steps that both shells drive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tocsin.client import operations
from tocsin.client.consumer_spec import ConsumerSpec, milliseconds_of
from tocsin.client.core_reading import RangeBlock, RangeState
from tocsin.client.core_sessions import Fields, SessionState
from tocsin.client.headers import as_destination
from tocsin.client.patience import asking
from tocsin.client.pending import Steps
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import IllegalState, InvalidDestination, TimedOut, TocsinError
from tocsin.model.limits import (
    OFFSET_MAX,
    RANGE_BUFFER_BYTES_MAX,
    RANGE_BUFFER_BYTES_MIN,
    RANGE_MESSAGES,
)
from tocsin.model.projection import Projection


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets that a destination has now."""

    first: int
    """The first that is stored."""
    end: int
    """One past the last that may be read: everything before it is durable."""
    identity: str
    """Another one when the destination was deleted and made again: its offsets then mean other messages."""
    retained: bool

    @classmethod
    def of(cls, reply: Fields) -> Offsets:
        return cls(int(reply["first"]), int(reply["end"]), str(reply["identity"]), bool(reply["retained"]))


def about(destination: Destination | str, identity: str | None = None, **fields: Any) -> Fields:
    """With an identity, another destination of the same name refuses the request."""
    named = {"destination": str(as_destination(destination)), **fields}
    return named if identity is None else {**named, "identity": identity}


def time_fields(destination: Destination | str, time: datetime | int, identity: str | None = None) -> Fields:
    """A time with its zone, or milliseconds since 1970."""
    return about(destination, identity, time_ms=time if isinstance(time, int) else milliseconds_of(time))


def hold_fields(
    destination: Destination | str, name: str, offset: int, seconds: float, identity: str | None = None
) -> Fields:
    return about(destination, identity, name=name, offset=offset, seconds=max(1, round(seconds)))


def cuts_of(reply: Fields) -> list[int]:
    return [int(cut) for cut in reply["cuts"]]


def range_spec(
    destination: Destination | str,
    start: int,
    end: int,
    columns: Iterable[str] | None,
    selector: str | None,
    prefetch_bytes: int,
    skip_removed: bool,
    drain: tuple[str, int] | None,
    identity: str | None = None,
) -> ConsumerSpec:
    """Checks what an application asks for before the server hears of it."""
    if not 0 <= start <= end <= OFFSET_MAX:
        raise IllegalState(
            f"A range of offsets begins at 0 or later and does not end before; {start} to {end} is none."
        )
    if not RANGE_BUFFER_BYTES_MIN <= prefetch_bytes <= RANGE_BUFFER_BYTES_MAX:
        raise IllegalState(
            f"prefetch_bytes is a number from {RANGE_BUFFER_BYTES_MIN:,} to {RANGE_BUFFER_BYTES_MAX:,}, "
            f"not {prefetch_bytes!r}."
        )
    wanted: Fields = {"offset": start, "end": end}
    if columns is not None:
        names = list(columns)
        Projection(names)
        wanted["columns"] = names
    if skip_removed:
        wanted["skip_removed"] = True
    if drain is not None:
        wanted["drain"], wanted["take"] = drain
    if identity is not None:
        wanted["identity"] = identity
    return ConsumerSpec(
        as_destination(destination), "replay", RANGE_MESSAGES, selector or None, start=wanted,
        buffer_bytes=prefetch_bytes,
    )  # fmt: skip


def browse_spec(queue: Destination | str, selector: str | None, prefetch_bytes: int) -> ConsumerSpec:
    """Everything in a queue, as blocks. Of the dead message queue that is more than a range of offsets can say."""
    where = as_destination(queue)
    if where.kind is not Kind.QUEUE:
        raise InvalidDestination(f"{where} is a topic; only queues can be browsed.")
    return ConsumerSpec(where, "browse", RANGE_MESSAGES, selector or None, buffer_bytes=prefetch_bytes)


def open_range(session: SessionState, spec: ConsumerSpec) -> Steps[RangeState]:
    core = session.core
    with core.port.lock:
        session.check_open()
        reader = RangeState(session, core.next_number(), spec)
        session.add_consumer(reader)
        core.port.flush()
    yield from operations.until_opened(reader)
    return reader


def next_block(reader: RangeState) -> Steps[RangeBlock | None]:
    """The next block; None at the end of the range."""
    core = reader.session.core
    while True:
        found = reader.take_block()
        if found is not None:
            return found
        with core.port.lock:
            if reader.error is not None:
                raise reader.error
            core.check_open()
            if reader.is_over:
                return None
            reader.count_taken()
            ready = reader.when_ready()
            core.port.flush()
        try:
            with asking(reader.spec.destination):
                yield ready
        except TimedOut:
            if reader.spec.selector is None:
                raise
            yield from _check_alive(reader)


def _check_alive(reader: RangeState) -> Steps[None]:
    """A selector may match nothing for long. A server that answers another question meanwhile is only busy."""
    try:
        yield from operations.request(reader.session.core, 0, "offset.range", about(reader.spec.destination))
    except TimedOut:
        raise
    except TocsinError:
        # A refusal is an answer, too; the end of the connection is noticed by who waits for the next block.
        return


def close_range(reader: RangeState) -> Steps[None]:
    """The server reads no further for it."""
    return operations.close_consumer(reader, acknowledge=False)
