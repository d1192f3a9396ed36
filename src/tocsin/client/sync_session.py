"""The synchronous session."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from tocsin.client import operations, reading
from tocsin.client.consumer_spec import make_spec
from tocsin.client.core_sessions import SessionState
from tocsin.client.headers import as_destination
from tocsin.client.local_files import ask_steps, is_worth_it
from tocsin.client.pending import Steps
from tocsin.client.producing import SendOptions, make_defaults
from tocsin.client.requesting import Requester
from tocsin.client.staging import Stage, open_stage
from tocsin.client.sync_consumer import Browser, Consumer
from tocsin.client.sync_producer import Producer
from tocsin.client.sync_reader import RangeReader
from tocsin.client.sync_worker import SessionWorker
from tocsin.client.temporary import TemporaryDestination
from tocsin.model.destination import Destination, Kind, check_name
from tocsin.model.errors import IllegalState, TimedOut
from tocsin.model.limits import LAST_WORDS_SECONDS, PREFETCH_DEFAULT, RANGE_BUFFER_BYTES, STAGE_SECONDS_DEFAULT
from tocsin.model.message import Message
from tocsin.runtime.local import on_this_host

if TYPE_CHECKING:
    from tocsin.client.sync import Connection


class Session:
    """One thread's conversation with the server: producers and consumers, and how messages are acknowledged.

    Use a session from one thread at a time; only close() may come from another.
    """

    def __init__(self, connection: Connection, state: SessionState) -> None:
        self._connection = connection
        self._line = connection._line
        self._state = state
        self._worker = SessionWorker(state, self._line)
        self._user: int | None = None
        self._requester = Requester(state)

    @property
    def ack(self) -> str:
        """How messages are acknowledged: "auto", "client" or "dups_ok"."""
        return self._state.ack

    @property
    def is_closed(self) -> bool:
        return self._state.closed

    # Names and messages.

    def queue(self, name: str) -> Destination:
        return Destination(Kind.QUEUE, check_name(name))

    def topic(self, name: str) -> Destination:
        return Destination(Kind.TOPIC, check_name(name))

    def temporary_queue(self) -> TemporaryDestination:
        """A queue that only this connection can consume from, and that ends with it."""
        return self._temporary(Kind.QUEUE)

    def temporary_topic(self) -> TemporaryDestination:
        return self._temporary(Kind.TOPIC)

    def _temporary(self, kind: Kind) -> TemporaryDestination:
        text = self._line.run(operations.create_temporary(self._state, kind))
        return TemporaryDestination(text, self._connection.delete_destination)

    def message(self, body: Any = None, *, properties: Mapping[str, Any] | None = None, **headers: Any) -> Message:
        """A message to fill and send; headers as in tocsin.Message."""
        return Message(body, properties=properties, **headers)

    # Producing.

    def producer(
        self,
        destination: Destination | None = None,
        *,
        delivery_mode: str = "persistent",
        priority: int = 4,
        ttl: float | None = None,
        delay: float | None = None,
        disable_message_id: bool = False,
        disable_timestamp: bool = False,
    ) -> Producer:
        """Makes a producer; the destination exists afterwards. Times in seconds."""
        self._state.check_open()
        defaults = make_defaults(delivery_mode, priority, ttl, delay, disable_message_id, disable_timestamp)
        where = None if destination is None else as_destination(destination)
        producer = Producer(self, where, defaults)
        self._line.run(producer._open_steps())
        return producer

    def stage(self, destination: Destination | str, *, seconds: float = STAGE_SECONDS_DEFAULT) -> Stage:
        """Opens a stage of a destination, which exists afterwards: what is appended to it is seen when it is committed.

        A stage that gets nothing for so many seconds, and is not committed, is dropped.
        """
        stage = open_stage(self._state, self._line, as_destination(destination), seconds)
        stage.owner = self
        return stage

    def request(
        self,
        destination: Destination,
        body: Any,
        *,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> Message:
        """Sends a request and returns the reply to it, which comes over a temporary queue of this session.

        Any number of threads may do that at once: each gets the reply that names its request.
        """
        try:
            return self._line.run(self._requester.steps(destination, body, options), timeout)
        except TimedOut:
            raise TimedOut(f"No reply came from {destination} within {timeout:g} s.") from None

    # Consuming.

    def consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        *,
        no_local: bool = False,
        prefetch: int = PREFETCH_DEFAULT,
        subscription: str | None = None,
        durable: bool = False,
        shared: bool = False,
        start: Any = None,
    ) -> Consumer:
        """Makes a consumer of a queue, or of a topic through a subscription.

        Without `subscription` a topic's messages come for as long as the consumer lives. A name makes the subscription
        durable (it outlives its consumers), shared (several consumers divide the messages), or both. `start` says where
        a new subscription of a retained topic begins: "earliest", "latest", an offset or a time.
        """
        spec = make_spec(
            destination,
            selector=selector,
            no_local=no_local,
            prefetch=prefetch,
            subscription=subscription,
            durable=durable,
            shared=shared,
            start=start,
        )
        return Consumer(self, self._line.run(operations.open_consumer(self._state, spec)))

    def durable_consumer(self, topic: Destination, name: str, selector: str | None = None, **options: Any) -> Consumer:
        """A durable subscription of this connection's client id, with one consumer at a time."""
        return self.consumer(topic, selector, subscription=name, durable=True, **options)

    def shared_consumer(self, topic: Destination, name: str, selector: str | None = None, **options: Any) -> Consumer:
        """A subscription that several consumers share, for as long as there is one."""
        return self.consumer(topic, selector, subscription=name, shared=True, **options)

    def shared_durable_consumer(
        self, topic: Destination, name: str, selector: str | None = None, **options: Any
    ) -> Consumer:
        """A durable subscription that several consumers share."""
        return self.consumer(topic, selector, subscription=name, durable=True, shared=True, **options)

    def replay(
        self,
        topic: Destination,
        start: Any = "earliest",
        selector: str | None = None,
        *,
        prefetch: int = PREFETCH_DEFAULT,
    ) -> Consumer:
        """Reads a retained topic from an offset, a time, "earliest" or "latest" on; nothing is acknowledged."""
        spec = make_spec(topic, mode="replay", selector=selector, prefetch=prefetch, start=start)
        return Consumer(self, self._line.run(operations.open_consumer(self._state, spec)))

    def read_range(
        self,
        topic: Destination | str,
        start: int,
        end: int,
        *,
        columns: Sequence[str] | None = None,
        selector: str | None = None,
        prefetch_bytes: int = RANGE_BUFFER_BYTES,
        skip_removed: bool = False,
        drain: tuple[str, int] | None = None,
        identity: str | None = None,
        local: bool | None = None,
    ) -> RangeReader:
        """Reads messages of a retained topic by their offsets, from start up to end: whole blocks, none decoded.

        `columns` names what is wanted of them (such as "body", "key", "timestamp", "property:NAME"; all when absent); a
        block may have more. A part of the range that retention has removed, or that is damaged on the server's disk, is
        an error, unless `skip_removed`. Of a queue the messages that are still there are shown, and not taken; `drain`
        reads the take of a drain.

        With an `identity`, as `connection.offsets` tells it, another destination of the same name is refused with
        DataLost: one that was made later, or another cluster's. After a reconnect that holds in any case.

        On the server's host large ranges are read out of its files, if this process may open them: nothing is sent, and
        blocks are windows into the files. local=False never does that, local=True tries it for every range.
        """
        spec = reading.range_spec(topic, start, end, columns, selector, prefetch_bytes, skip_removed, drain, identity)
        self._state.check_open()
        stored = None
        if is_worth_it(spec, local, on_this_host(self._line._socket)):
            stored = self._line.run(ask_steps(self._line.core, spec, start))
        return RangeReader(self, spec, stored)

    def browser(self, queue: Destination, selector: str | None = None) -> Browser:
        """Shows what is in a queue without taking it."""
        self._state.check_open()
        return Browser(self, queue, selector)

    def browse_blocks(
        self, queue: Destination | str, *, selector: str | None = None, prefetch_bytes: int = RANGE_BUFFER_BYTES
    ) -> RangeReader:
        """The same as whole blocks, none decoded."""
        return RangeReader(self, reading.browse_spec(queue, selector, prefetch_bytes))

    def unsubscribe(self, name: str, *, durable: bool = True) -> None:
        """Deletes a subscription; refused while it has a consumer or unacknowledged messages."""
        self._line.run(operations.unsubscribe(self._state, name, durable))

    def acknowledge(self) -> None:
        """Acknowledges everything that this session has handed out, and waits until that is durable."""
        self._line.run(operations.acknowledge(self._state))

    def recover(self) -> None:
        """Everything handed out and not acknowledged is delivered again, in its old order, marked as redelivered."""
        self._line.run(operations.recover(self._state))

    # The end.

    def close(self, timeout: float | None = None) -> None:
        """Waits for sends, callbacks and a running listener, settles what was handed out. May be called again.

        In automatic modes the last message handed out counts as handled. Where the application acknowledges, what it
        has not acknowledged goes back and is delivered again, marked as redelivered.
        """
        self._close(acknowledge=True, timeout=timeout)

    def _close(self, acknowledge: bool, timeout: float | None = None) -> None:
        if self._state.core.left_behind:
            return
        if self._worker.is_current:
            raise IllegalState("A listener or a completion callback can't close its own session.")
        if self._state.closed:
            self._worker.join()
            return
        late = self._line.run(self._quiet_steps(), timeout)
        try:
            # Who has waited in vain already waits just for a moment more.
            limit = timeout if late is None else LAST_WORDS_SECONDS
            self._line.run(operations.close_session(self._state, acknowledge), limit)
        except TimedOut as error:
            late = late or error
        finally:
            self._worker.join()
            self._connection._forget(self)
        if late is not None:
            raise late

    def _quiet_steps(self) -> Steps[TimedOut | None]:
        """No listener is called any more, and every callback that is due has been; returns what was not confirmed."""
        late = None
        with self._line.lock:
            for consumer in self._state.consumers:
                consumer.listening = False
                consumer.attention = True
        if self._state.failure is None:
            late = yield from operations.finish_sends(self._state)
        if late is None:
            yield from self._worker.finish_steps()
        return late

    def _check_receiving(self) -> None:
        if self._worker.has_listeners and not self._worker.is_current:
            raise IllegalState("The session has listeners, which its own thread serves; receive in another session.")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Notices two threads that wait in one session."""
        me = threading.get_ident()
        if self._user is not None and self._user != me:
            raise IllegalState("Another thread is waiting in this session; each thread needs a session of its own.")
        outer, self._user = self._user, me
        try:
            yield
        finally:
            self._user = outer

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(acknowledge=kind is None)
