"""What both shells' producers share: how a body or a message and the options of a send become a row of a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypedDict

from tocsin.client import operations
from tocsin.client.batching import EXPIRY, Batch, BatchKey, Extra, check_columns, whole_batch, write_header
from tocsin.client.core_publishing import Lane
from tocsin.client.core_sessions import SessionState
from tocsin.client.headers import (
    as_destination,
    check_priority,
    header_columns,
    is_message,
    key_column,
    milliseconds,
    read_mode,
)
from tocsin.client.pending import Pending, Steps, all_of
from tocsin.client.source import Source
from tocsin.model.batch import FLAG_NO_MESSAGE_ID, BodyKind, DeliveryMode
from tocsin.model.bodies import check_text, encode_body
from tocsin.model.destination import Destination
from tocsin.model.errors import (
    IllegalState,
    InvalidDestination,
    MessageFormatError,
    MessageTooLarge,
    TimedOut,
    TocsinError,
)
from tocsin.model.limits import CLIENT_BATCH_BYTES, SESSION_CLOSE_SECONDS
from tocsin.model.message import MODE_WORDS, PRIORITY_DEFAULT, Message

Keys = list[bytes | None]
"""The keys of some messages in their order."""

Completion = Callable[[Any, TocsinError | None], object]
"""Called with the message that was sent and None, or the error."""


class SendOptions(TypedDict, total=False):
    """What a single send can say; what it leaves out is the producer's or the message's."""

    properties: Any
    priority: int | None
    ttl: float | None
    delay: float | None
    delivery_mode: str | None
    correlation_id: str | bytes | None
    reply_to: Destination | None
    type: str | None
    key: str | bytes | None
    group_id: str | None
    group_sequence: int | None


_OPTIONS = SendOptions.__annotations__.keys()


@dataclass(slots=True)
class Defaults:
    """What a producer says for all its sends; times in milliseconds."""

    mode: DeliveryMode = DeliveryMode.PERSISTENT
    priority: int = PRIORITY_DEFAULT
    ttl: int = 0
    delay: int = 0
    flags: int = 0
    timed: bool = True


def make_defaults(
    delivery_mode: str,
    priority: int,
    ttl: float | None,
    delay: float | None,
    disable_message_id: bool,
    disable_timestamp: bool,
) -> Defaults:
    return Defaults(
        read_mode(delivery_mode),
        check_priority(priority),
        milliseconds("ttl", ttl),
        milliseconds("delay", delay),
        FLAG_NO_MESSAGE_ID if disable_message_id else 0,
        not disable_timestamp,
    )


@dataclass(slots=True)
class Outgoing:
    """One message, ready to be put into a batch."""

    key: BatchKey
    body: str | bytes
    size: int
    time: int
    extra: Extra | None
    sender: Any
    expiration: int


class SendHandle:
    """A message on its way: done when it is confirmed or refused."""

    __slots__ = ("_batch", "_row", "message")

    def __init__(self, batch: Batch, row: int, message: Any) -> None:
        self._batch = batch
        self._row = row
        self.message = message
        """The message that was given to the send, or the body."""

    @property
    def done(self) -> bool:
        return self._batch.pending.done

    @property
    def error(self) -> TocsinError | None:
        """Why the message was not stored; None while it is under way and when it was confirmed."""
        return self._batch.pending.error

    def sent_message(self) -> Any:
        """The message that was given to the send; for a bare body one that shows what was sent."""
        if is_message(self.message):
            return self.message
        message, batch = Message(self.message), self._batch
        sent_at = batch.times[self._row] if batch.key.timed else 0
        message.destination = batch.destination
        message.id = self.message_id
        message.timestamp = sent_at
        message.delivery_time = batch.key.delivery_time or sent_at
        message.delivery_mode = MODE_WORDS[batch.key.mode]
        message.priority = batch.key.priority
        return message

    @property
    def message_id(self) -> str | None:
        """None until the message has left, and when the producer has switched ids off."""
        return self._batch.message_id(self._row)


class ProducerBase:
    """Everything but the waiting."""

    def __init__(self, session: SessionState, destination: Destination | None, defaults: Defaults) -> None:
        self._state = session
        self._core = session.core
        self._port = session.core.port
        self._destination = destination
        self._defaults = defaults
        self._lanes: dict[Destination, Lane] = {}
        self._own_lane: Lane | None = None
        self._closed = False
        self._callbacks: deque[tuple[SendHandle, Completion]] = deque()
        # The keys of messages that say nothing about themselves; a delay makes each different.
        self._plain: dict[type, BatchKey] = {}
        if not defaults.delay and not defaults.ttl:
            for kind, body_kind in ((str, BodyKind.TEXT), (bytes, BodyKind.BYTES)):
                self._plain[kind] = BatchKey(
                    body_kind, defaults.mode, defaults.priority, 0, defaults.flags, defaults.timed
                )

    @property
    def destination(self) -> Destination | None:
        return self._destination

    def _prepare_fully(self, body: Any, options: SendOptions, time: int) -> Outgoing:
        if unknown := options.keys() - _OPTIONS:
            raise TypeError(f"A send has no option {unknown.pop()!r}; it has {', '.join(sorted(_OPTIONS))}.")
        sender = body if is_message(body) else None
        extra = header_columns(sender, options)
        kind, content = encode_body(body if sender is None else sender.body, self._core.settings.serializers)
        defaults = self._defaults
        mode, priority = options.get("delivery_mode"), options.get("priority")
        ttl, delay = options.get("ttl"), options.get("delay")
        ttl_ms = defaults.ttl if ttl is None else milliseconds("ttl", ttl)
        delay_ms = defaults.delay if delay is None else milliseconds("delay", delay)
        key = BatchKey(
            kind,
            defaults.mode if mode is None else read_mode(mode),
            defaults.priority if priority is None else check_priority(priority),
            time + delay_ms if delay_ms else 0,
            defaults.flags,
            defaults.timed,
        )
        if ttl_ms:
            extra[EXPIRY] = time + ttl_ms
        size = len(content) if isinstance(content, bytes) or content.isascii() else len(content.encode())
        size += sum(len(value) for value in extra.values() if isinstance(value, str | bytes))
        expiration = time + ttl_ms if ttl_ms else 0
        return Outgoing(key, content, size, time, check_columns(extra) or None, sender, expiration)

    def _check_size(self, size: int) -> None:
        if size > self._core.max_message_bytes:
            raise MessageTooLarge(
                f"The message has {size:,} bytes; {self._core.max_message_bytes:,} is the most that the server takes."
            )

    def _lane(self, destination: Destination | None) -> Lane:
        """The way to a destination; call with the lock held."""
        lane = self._own_lane
        if lane is not None and destination is None and lane.is_usable:
            return lane
        where = self._target(destination)
        lane = self._lanes.get(where)
        if lane is None or not lane.is_usable:
            lane = self._lanes[where] = self._state.lane(where)
            lane.users += 1
        if where == self._destination:
            self._own_lane = lane
        return lane

    def _target(self, destination: Destination | str | None) -> Destination:
        if destination is None:
            if self._destination is None:
                raise InvalidDestination("The producer has no destination of its own; name one in the send.")
            return self._destination
        if self._destination is not None and destination != self._destination:
            raise IllegalState(
                f"The producer sends to {self._destination} only; a producer made without a destination sends to any."
            )
        return as_destination(destination)

    def _put(self, lane: Lane, body: Any, options: SendOptions) -> tuple[Batch, int]:
        """Puts a message on its way; call with the lock held, when the lane has room."""
        time = self._port.wall_ms()
        if not options:
            key = self._plain.get(type(body))
            if key is not None:
                # The hot path of send and send_nowait: a body that says nothing but itself.
                size = len(body)
                if key.kind is BodyKind.TEXT and not body.isascii():
                    size = len(check_text(body).encode())
                if size > self._core.max_message_bytes:
                    self._check_size(size)
                return lane.add(key, body, size, time, None)
        outgoing = self._prepare_fully(body, options, time)
        self._check_size(outgoing.size)
        batch, row = lane.add(outgoing.key, outgoing.body, outgoing.size, outgoing.time, outgoing.extra)
        if outgoing.sender is not None:
            _write_back(batch, row, outgoing, lane.destination)
        return batch, row

    def _check_usable(self) -> None:
        if self._closed:
            raise IllegalState("The producer is closed; make another one with session.producer().")
        self._state.check_open()

    # Completion callbacks: in send order per producer, whichever destinations the sends went to.

    def _call_back(self, handle: SendHandle, callback: Completion) -> None:
        first_of_batch = not self._callbacks or self._callbacks[-1][0]._batch is not handle._batch
        self._callbacks.append((handle, callback))
        if first_of_batch or handle.done:
            handle._batch.pending.when_done(self._pass_on_callbacks)

    def _pass_on_callbacks(self, _pending: Pending) -> None:
        while self._callbacks and self._callbacks[0][0].done:
            handle, callback = self._callbacks.popleft()
            self._state.add_job(partial(_complete, handle, callback))

    # Operations in steps.

    def _open_steps(self) -> Steps[None]:
        """Makes sure that the destination exists and may be sent to."""
        if self._destination is None:
            return
        with self._port.lock:
            self._check_usable()
            lane = self._lane(None)
            self._port.flush()
        try:
            yield lane.opened
        except BaseException:
            self._leave_lanes()
            raise

    def _enqueue_steps(self, body: Any, destination: Destination | None, options: SendOptions) -> Steps[SendHandle]:
        """Puts a message on its way, after waiting for room."""
        while True:
            with self._port.lock:
                self._check_usable()
                lane = self._lane(destination)
                room = lane.when_room()
                if room is None:
                    batch, row = self._put(lane, body, options)
                    self._port.flush()
                    return SendHandle(batch, row, body)
                self._port.flush()
            yield room

    def _send_steps(self, body: Any, destination: Destination | None, options: SendOptions) -> Steps[str | None]:
        handle = yield from self._enqueue_steps(body, destination, options)
        yield handle._batch.pending
        return handle.message_id

    def _send_many_steps(
        self,
        bodies: Iterable[Any],
        destination: Destination | None,
        options: SendOptions,
        keys: Iterable[Any] | None = None,
    ) -> Steps[int]:
        """Chunk after chunk, each a batch of its own where its bodies agree; many are in flight at a time.

        What a source had yielded before it raised is sent and confirmed, then its error is raised.
        """
        if keys is not None and options.get("key") is not None:
            raise MessageFormatError("Either `key`, one for all messages, or `keys`, one for each.")
        source = Source(bodies)
        key_iterator = None if keys is None else iter(keys)
        target = self._target(destination)
        count = 0
        batches: deque[Batch] = deque()
        while chunk := source.next_chunk():
            sent = 0
            chunk_keys = None if key_iterator is None else _next_keys(key_iterator, len(chunk))
            for batch in self._chunk_batches(chunk, target, options, chunk_keys):
                count += len(batch)
                sent += batch.size
                yield from self._send_batch_steps(batch, destination)
                batches.append(batch)
            source.limit = CLIENT_BATCH_BYTES * len(chunk) // max(sent, 1)
            while batches and batches[0].pending.done:
                batches.popleft().pending.get()
        for batch in batches:
            if not batch.pending.done:
                yield batch.pending
            batch.pending.get()
        if source.error is not None:
            raise source.error
        if key_iterator is not None and next(key_iterator, _END) is not _END:
            raise MessageFormatError(f"There are more keys than messages; all {count:,} messages were sent.")
        return count

    def _send_batch_steps(self, batch: Batch, destination: Destination | None) -> Steps[None]:
        while True:
            with self._port.lock:
                self._check_usable()
                lane = self._lane(destination)
                room = lane.when_room()
                if room is None:
                    lane.add_batch(batch)
                    self._port.flush()
                    return
                self._port.flush()
            yield room

    def _chunk_batches(
        self, chunk: list[Any], target: Destination, options: SendOptions, keys: Keys | None
    ) -> list[Batch]:
        """One batch when all bodies are text or all are bytes; else as many as the messages need."""
        kinds = set(map(type, chunk))
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind not in (str, bytes):
            return self._mixed_batches(chunk, target, options, keys)
        shared = self._prepare_fully("" if kind is str else b"", options, self._port.wall_ms())
        sizes = list(map(len, chunk))
        if keys is not None:
            sizes = [size + len(key or b"") for size, key in zip(sizes, keys, strict=True)]
        size = sum(sizes) + len(chunk) * shared.size
        self._check_size(max(sizes) + shared.size)
        if size > 2 * CLIENT_BATCH_BYTES and len(chunk) > 1:
            middle = len(chunk) // 2
            return [
                batch
                for half in (slice(None, middle), slice(middle, None))
                for batch in self._chunk_batches(chunk[half], target, options, keys and keys[half])
            ]
        if kind is str and not "".join(chunk).isascii():
            return self._mixed_batches(chunk, target, options, keys)
        return [whole_batch(shared.key, chunk, size, shared.time, shared.extra or {}, keys)]

    def _mixed_batches(
        self, chunk: list[Any], target: Destination, options: SendOptions, keys: Keys | None
    ) -> list[Batch]:
        batches: list[Batch] = []
        for row, body in enumerate(chunk):
            said: SendOptions = options if keys is None or keys[row] is None else {**options, "key": keys[row]}
            outgoing = self._prepare_fully(body, said, self._port.wall_ms())
            self._check_size(outgoing.size)
            if not batches or not batches[-1].takes(outgoing.key, outgoing.extra):
                batches.append(Batch(outgoing.key))
            batch = batches[-1]
            row = batch.add(outgoing.body, outgoing.size, outgoing.time, outgoing.extra)
            if outgoing.sender is not None:
                _write_back(batch, row, outgoing, target)
        for batch in batches:
            batch.closed = True
        return batches

    def _flush_steps(self) -> Steps[None]:
        """Waits until everything this producer has sent is confirmed or refused."""
        for lane in list(self._lanes.values()):
            with self._port.lock:
                batch = lane.last_unconfirmed()
            if batch is not None and not batch.pending.done:
                try:
                    yield batch.pending
                except TocsinError:
                    # The handle, the callback or the send itself tells; a flush only waits.
                    if not batch.pending.done:
                        raise

    def _close_steps(self) -> Steps[None]:
        if self._closed:
            return
        self._closed = True
        late: TimedOut | None = None
        try:
            yield from operations.wait_for_lanes(self._core, list(self._lanes.values()))
        except TimedOut as error:
            with self._port.lock:
                what = operations.unconfirmed(self._lanes.values())
            late = TimedOut(f"The producer was closed while {what}. {error}")
        finally:
            # Also when nobody waits any more: the lanes are free for others.
            closing = self._leave_lanes()
        # The server may answer no more: for the application it is closed either way.
        with suppress(TocsinError):
            yield all_of(closing, SESSION_CLOSE_SECONDS)
        if late is not None:
            raise late

    def _leave_lanes(self) -> list[Pending]:
        """Lanes that nobody else uses are closed at the server, too; returns what it has yet to answer."""
        closing: list[Pending] = []
        with self._port.lock:
            for lane in self._lanes.values():
                lane.users -= 1
                if not lane.users and lane.is_idle and self._state.lanes.get(lane.destination) is lane:
                    closing.append(self._state.close_lane(lane))
            self._lanes.clear()
            self._port.flush()
        return closing

    def _is_blocked(self, destination: Destination | None) -> bool:
        with self._port.lock:
            self._check_usable()
            lane = self._state.lanes.get(self._target(destination))
            return lane is not None and (lane.is_blocked or not lane.has_room)


_END = object()


def _next_keys(keys: Iterator[Any], count: int) -> Keys:
    found = list(islice(keys, count))
    if len(found) < count:
        raise MessageFormatError("There are fewer keys than messages: give one for each, None for none.")
    return key_column(found)


def _complete(handle: SendHandle, callback: Completion) -> object:
    return callback(handle.sent_message(), handle.error)


def _write_back(batch: Batch, row: int, outgoing: Outgoing, destination: Destination) -> None:
    """The headers that a send decides, onto the sender's message; the id follows when the batch has its sequences."""
    sender, key = outgoing.sender, outgoing.key
    sent_at = outgoing.time if key.timed else 0
    write_header(sender, "destination", destination)
    write_header(sender, "timestamp", sent_at)
    write_header(sender, "expiration", outgoing.expiration)
    write_header(sender, "delivery_time", key.delivery_time or sent_at)
    write_header(sender, "delivery_mode", MODE_WORDS[key.mode])
    write_header(sender, "priority", key.priority)
    write_header(sender, "id", batch.message_id(row))
    batch.senders.append((row, sender))
