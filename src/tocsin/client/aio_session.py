"""The session for asyncio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from tocsin.client import operations, reading
from tocsin.client.aio_consumer import Browser, Consumer
from tocsin.client.aio_producer import Producer
from tocsin.client.aio_reader import RangeReader
from tocsin.client.aio_stage import Stage, open_stage
from tocsin.client.aio_worker import AioWorker
from tocsin.client.consumer_spec import make_spec
from tocsin.client.core_sessions import SessionState
from tocsin.client.headers import as_destination
from tocsin.client.pending import Steps
from tocsin.client.producing import SendOptions, make_defaults
from tocsin.client.requesting import Requester
from tocsin.client.temporary import TemporaryDestination
from tocsin.model.destination import Destination, Kind, check_name
from tocsin.model.errors import IllegalState, TimedOut
from tocsin.model.limits import LAST_WORDS_SECONDS, PREFETCH_DEFAULT, RANGE_BUFFER_BYTES, STAGE_SECONDS_DEFAULT
from tocsin.model.message import Message

if TYPE_CHECKING:
    from tocsin.client.aio import Connection


class Session:
    """One conversation with the server: producers and consumers, and how messages are acknowledged."""

    def __init__(self, connection: Connection, state: SessionState) -> None:
        self._connection = connection
        self._line = connection._line
        self._state = state
        self._worker = AioWorker(state, self._line)
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

    async def temporary_queue(self) -> TemporaryDestination:
        """A queue that only this connection can consume from, and that ends with it."""
        return await self._temporary(Kind.QUEUE)

    async def temporary_topic(self) -> TemporaryDestination:
        return await self._temporary(Kind.TOPIC)

    async def _temporary(self, kind: Kind) -> TemporaryDestination:
        text = await self._line.run(operations.create_temporary(self._state, kind))
        return TemporaryDestination(text, self._connection.delete_destination)

    def message(self, body: Any = None, *, properties: Mapping[str, Any] | None = None, **headers: Any) -> Message:
        """A message to fill and send; headers as in tocsin.Message."""
        return Message(body, properties=properties, **headers)

    # Producing.

    async def producer(
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
        await self._line.run(producer._open_steps())
        return producer

    async def stage(self, destination: Destination | str, *, seconds: float = STAGE_SECONDS_DEFAULT) -> Stage:
        """Opens a stage of a destination; see tocsin.Session.stage."""
        stage = await open_stage(self._state, self._line, as_destination(destination), seconds)
        stage.owner = self
        return stage

    async def request(
        self,
        destination: Destination,
        body: Any,
        *,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> Message:
        """Sends a request and returns the reply to it, which comes over a temporary queue of this session.

        Any number of tasks may do that at once: each gets the reply that names its request.
        """
        try:
            return await self._line.run(self._requester.steps(destination, body, options), timeout)
        except TimedOut:
            raise TimedOut(f"No reply came from {destination} within {timeout:g} s.") from None

    # Consuming.

    async def consumer(
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
        """Makes a consumer of a queue, or of a topic through a subscription; see tocsin.Session.consumer."""
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
        return Consumer(self, await self._line.run(operations.open_consumer(self._state, spec)))

    async def durable_consumer(
        self, topic: Destination, name: str, selector: str | None = None, **options: Any
    ) -> Consumer:
        """A durable subscription of this connection's client id, with one consumer at a time."""
        return await self.consumer(topic, selector, subscription=name, durable=True, **options)

    async def shared_consumer(
        self, topic: Destination, name: str, selector: str | None = None, **options: Any
    ) -> Consumer:
        """A subscription that several consumers share, for as long as there is one."""
        return await self.consumer(topic, selector, subscription=name, shared=True, **options)

    async def shared_durable_consumer(
        self, topic: Destination, name: str, selector: str | None = None, **options: Any
    ) -> Consumer:
        """A durable subscription that several consumers share."""
        return await self.consumer(topic, selector, subscription=name, durable=True, shared=True, **options)

    async def replay(
        self,
        topic: Destination,
        start: Any = "earliest",
        selector: str | None = None,
        *,
        prefetch: int = PREFETCH_DEFAULT,
    ) -> Consumer:
        """Reads a retained topic from an offset, a time, "earliest" or "latest" on; nothing is acknowledged."""
        spec = make_spec(topic, mode="replay", selector=selector, prefetch=prefetch, start=start)
        return Consumer(self, await self._line.run(operations.open_consumer(self._state, spec)))

    async def read_range(
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
    ) -> RangeReader:
        """Reads messages of a retained topic by their offsets, from start up to end: whole blocks, none decoded.

        `columns` names what is wanted of them (such as "body", "key", "timestamp", "property:NAME"; all when absent); a
        block may have more. A part of the range that retention has removed, or that is damaged on the server's disk, is
        an error, unless `skip_removed`. Of a queue the messages that are still there are shown, and not taken; `drain`
        reads the take of a drain.

        With an `identity`, as `connection.offsets` tells it, another destination of the same name is refused with
        DataLost: one that was made later, or another cluster's. After a reconnect that holds in any case.
        """
        spec = reading.range_spec(topic, start, end, columns, selector, prefetch_bytes, skip_removed, drain, identity)
        return RangeReader(self, await self._line.run(reading.open_range(self._state, spec)))

    async def browser(self, queue: Destination, selector: str | None = None) -> Browser:
        """Shows what is in a queue without taking it; iterate with `async for`."""
        self._state.check_open()
        return await Browser(self, queue, selector)._prepare()

    async def unsubscribe(self, name: str, *, durable: bool = True) -> None:
        """Deletes a subscription; refused while it has a consumer or unacknowledged messages."""
        await self._line.run(operations.unsubscribe(self._state, name, durable))

    async def acknowledge(self) -> None:
        """Acknowledges everything that this session has handed out, and waits until that is durable."""
        await self._line.run(operations.acknowledge(self._state))

    async def recover(self) -> None:
        """Everything handed out and not acknowledged is delivered again, in its old order, marked as redelivered."""
        await self._line.run(operations.recover(self._state))

    # The end.

    async def close(self, timeout: float | None = None) -> None:
        """Waits for sends, callbacks and a running listener, settles what was handed out. May be called again."""
        await self._close(acknowledge=True, timeout=timeout)

    async def _close(self, acknowledge: bool, timeout: float | None = None) -> None:
        if self._state.core.left_behind:
            return
        if self._worker.is_current:
            raise IllegalState("A listener or a completion callback can't close its own session.")
        if self._state.closed:
            await self._worker.join()
            return
        late = await self._line.run(self._quiet_steps(), timeout)
        try:
            # Who has waited in vain already waits just for a moment more.
            limit = timeout if late is None else LAST_WORDS_SECONDS
            await self._line.run(operations.close_session(self._state, acknowledge), limit)
        except TimedOut as error:
            late = late or error
        finally:
            await self._worker.join()
            self._connection._forget(self)
        if late is not None:
            raise late

    def _quiet_steps(self) -> Steps[TimedOut | None]:
        """No listener is called any more, and every callback that is due has been; returns what was not confirmed."""
        late = None
        for consumer in self._state.consumers:
            consumer.listening = False
            consumer.attention = True
        if self._state.failure is None:
            late = yield from operations.finish_sends(self._state)
        if late is None:
            yield from self._worker.finish_steps()
        return late

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(acknowledge=kind is None)
