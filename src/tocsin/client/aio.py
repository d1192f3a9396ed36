"""The API for asyncio: the same names as the synchronous one, with await."""

from __future__ import annotations

import ssl as ssl_module
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any

from tocsin.client import draining, operations, reading
from tocsin.client.admin import DestinationInfo, Metadata, destination_options, list_steps, metadata
from tocsin.client.aio_line import AioLine
from tocsin.client.aio_session import Session
from tocsin.client.draining import DrainTake
from tocsin.client.dropping import when_dropped
from tocsin.client.headers import as_destination
from tocsin.client.opening import make_settings, tls_context, warn_of_login_in_clear
from tocsin.client.patience import ClosingTime
from tocsin.client.settings import Settings, check_client_id
from tocsin.client.staging import StageReceipt, commit_steps, drop_steps, last_steps, take_over_steps
from tocsin.model.bodies import Serializers
from tocsin.model.destination import Destination, check_name, kind_of
from tocsin.model.errors import IllegalState, TimedOut, TocsinError
from tocsin.model.secret import Secret


async def connect(
    url: str = "tocsin://localhost:7177",
    *,
    user: str | None = None,
    password: str | Secret | None = None,
    client_id: str | None = None,
    ssl: ssl_module.SSLContext | bool | None = None,
    autostart: bool = True,
    heartbeat: float | None = None,
    connect_timeout: float | None = None,
    reconnect_timeout: float | None = None,
    answer_timeout: float | None = None,
    serializers: Serializers | None = None,
) -> Connection:
    """Connects to a server and logs in; see tocsin.connect."""
    settings = make_settings(
        url,
        user=user,
        password=password,
        client_id=client_id,
        autostart=autostart,
        heartbeat=heartbeat,
        connect_timeout=connect_timeout,
        reconnect_timeout=reconnect_timeout,
        answer_timeout=answer_timeout,
        serializers=serializers,
    )
    tls = tls_context(settings.url, ssl)
    warn_of_login_in_clear(settings, tls)
    return Connection(settings, tls, await _login(settings, tls))


async def _login(settings: Settings, tls: ssl_module.SSLContext | None) -> AioLine:
    line = AioLine(settings, tls)
    line.start()
    try:
        await line.wait(line.core.ready)
        line.core.ready.get()
    except BaseException:
        await _hang_up(line)
        raise
    return line


async def _hang_up(line: AioLine) -> None:
    with line.lock:
        line.core.close()
        line.flush()
    await line.close()


class Connection:
    """A connection to a server, on the event loop that made it."""

    def __init__(self, settings: Settings, tls: ssl_module.SSLContext | None, line: AioLine) -> None:
        self._settings = settings
        self._tls = tls
        self._line = line
        self._sessions: list[Session] = []
        self._used = False
        self._closed = False
        self._finalizer = when_dropped(self, line, self.url)

    @property
    def url(self) -> str:
        """Without the password."""
        return str(self._settings.url)

    @property
    def client_id(self) -> str | None:
        return self._settings.client_id

    async def set_client_id(self, value: str) -> None:
        """Can be set once, before the connection is used: the server learns it with the login."""
        check_client_id(value)
        if self._settings.client_id is not None:
            raise IllegalState(f"The client id is {self._settings.client_id!r} already; it can be set only once.")
        if self._used or self._closed:
            raise IllegalState("The client id must be set before the connection is used.")
        settings = self._settings.with_client_id(value)
        fresh = await _login(settings, self._tls)
        fresh.on_error = self._line.on_error
        stale, self._line, self._settings = self._line, fresh, settings
        self._finalizer.detach()
        self._finalizer = when_dropped(self, fresh, self.url)
        await _hang_up(stale)

    @property
    def on_error(self) -> Callable[[TocsinError], object] | None:
        """Called with each error that no call can report, such as a connection that could not be healed."""
        return self._line.on_error

    @on_error.setter
    def on_error(self, listener: Callable[[TocsinError], object] | None) -> None:
        self._line.on_error = listener

    @property
    def metadata(self) -> Metadata:
        self._used = True
        return metadata(self._line.core)

    @property
    def max_message_bytes(self) -> int:
        """The largest body that the server takes."""
        return self._line.core.max_message_bytes

    @property
    def max_block_bytes(self) -> int:
        """The largest block of columns that the server takes, with all messages that are in it."""
        return self._line.core.max_block_bytes

    @property
    def is_closed(self) -> bool:
        return self._closed

    async def session(self, ack: str = "auto", transacted: bool = False) -> Session:
        """Opens a session; `ack` is "auto", "client" or "dups_ok", see tocsin.Connection.session."""
        self._used = True
        state = await self._line.run(operations.open_session(self._line.core, ack, transacted))
        session = Session(self, state)
        self._sessions.append(session)
        return session

    def _forget(self, session: Session) -> None:
        if session in self._sessions:
            self._sessions.remove(session)

    async def start(self) -> None:
        """Lets messages flow to consumers."""
        self._used = True
        with self._line.lock:
            self._line.core.check_open()
            self._line.core.start()
            self._line.flush()

    async def stop(self) -> None:
        """No message is handed out until start(); returns when running listeners have returned. Sends go on."""
        self._used = True
        if any(session._worker.is_current for session in self._sessions):
            raise IllegalState("A listener or a completion callback can't stop its own connection.")
        with self._line.lock:
            self._line.core.check_open()
            self._line.core.stop()
            idle = [session._worker.when_idle() for session in self._sessions]
        for pending in idle:
            await self._line.wait(pending)

    # Destinations.

    async def destinations(self, prefix: str = "") -> list[DestinationInfo]:
        """What there is, in the order of names."""
        self._used = True
        return await self._line.run(list_steps(self._line.core, prefix))

    async def create_destination(
        self,
        name: str,
        kind: str = "queue",
        *,
        retained: bool | None = None,
        max_age: float | None = None,
        max_bytes: int | None = None,
        redelivery_limit: int | None = None,
        backoff: float | None = None,
        min_copies: int | None = None,
    ) -> bool:
        """Creates a queue or topic with options of its own; True when it is new. Times in seconds."""
        where = Destination(kind_of(kind), check_name(name))
        options = destination_options(retained, max_age, max_bytes, redelivery_limit, backoff, min_copies)
        reply = await self._request("destination.create", {"destination": str(where), **options})
        return bool(reply.get("created", True))

    async def delete_destination(self, destination: Destination | str) -> None:
        """Refused while the destination has consumers."""
        await self._request("destination.delete", {"destination": str(as_destination(destination))})

    async def purge_destination(self, destination: Destination | str) -> int:
        """Drops everything stored, and says how many messages that were."""
        reply = await self._request("destination.purge", {"destination": str(as_destination(destination))})
        return int(reply.get("messages", 0))

    async def show_destination(self, destination: Destination | str) -> DestinationInfo:
        where = as_destination(destination)
        return DestinationInfo.of(await self._request("destination.show", {"destination": str(where)}), where)

    async def offset_range(self, topic: Destination | str) -> tuple[int, int]:
        """Of a retained topic: the first offset that is stored, and one past the last."""
        reply = await self._request("offset.range", {"destination": str(as_destination(topic))})
        return int(reply["earliest"]), int(reply["latest"])

    async def offsets(self, destination: Destination | str) -> reading.Offsets:
        """Which offsets a destination has now, and the identity that tells it from others of the same name."""
        return reading.Offsets.of(await self._request("offset.range", reading.about(destination)))

    async def offset_at(self, topic: Destination | str, time: datetime | int, *, identity: str | None = None) -> int:
        """The first offset that was appended at or after a time with its zone, or milliseconds since 1970."""
        return int((await self._request("offset.at", reading.time_fields(topic, time, identity)))["offset"])

    async def offset_cuts(
        self, destination: Destination | str, start: int, end: int, parts: int, *, identity: str | None = None
    ) -> list[int]:
        """Cuts a range of offsets between batches into about equal parts; start and end are in the result."""
        fields = reading.about(destination, identity, start=start, end=end, parts=parts)
        return reading.cuts_of(await self._request("offset.cuts", fields))

    async def hold(
        self, topic: Destination | str, name: str, offset: int, seconds: float, *, identity: str | None = None
    ) -> None:
        """Retention keeps everything from an offset on until the hold is set anew, released, or its time is over."""
        await self._request("hold.set", reading.hold_fields(topic, name, offset, seconds, identity))

    async def release_hold(self, topic: Destination | str, name: str) -> None:
        await self._request("hold.release", reading.about(topic, name=name))

    async def resend_dead(self, offsets: list[tuple[int, int]]) -> int:
        """Sends messages of _DMQ, given as ranges of offsets, back to where they came from."""
        reply = await self._request("dead.resend", {"offsets": [number for pair in offsets for number in pair]})
        return int(reply.get("messages", 0))

    # Stages.

    async def commit_stages(
        self,
        app: str,
        epoch: int,
        receipts: Iterable[StageReceipt],
        *,
        run: int | None = None,
        seconds: float | None = None,
    ) -> bool:
        """Publishes all messages of these stages, once for each epoch; see tocsin.Connection.commit_stages."""
        self._used = True
        return await self._line.run(commit_steps(self._line.core, app, epoch, receipts, run, seconds))

    async def take_over(self, app: str, destination: Destination | str) -> int:
        """The number of a new run, which all earlier ones give way to; see tocsin.Connection.take_over."""
        self._used = True
        return await self._line.run(take_over_steps(self._line.core, app, destination))

    async def drop_stages(self, receipts: Iterable[StageReceipt]) -> int:
        """Drops stages that are still there, and says how many. What was committed stays."""
        self._used = True
        return await self._line.run(drop_steps(self._line.core, receipts))

    async def last_epoch(self, app: str, destinations: Iterable[Destination | str]) -> int:
        """The last epoch that an application has committed wherever these destinations are; -1 for none."""
        self._used = True
        return await self._line.run(last_steps(self._line.core, app, destinations))

    async def cluster_status(self) -> dict[str, Any]:
        """What the server that this connection ends at knows of its cluster: groups, who leads, who is in sync."""
        reply = await self._request("cluster.status", {})
        return {name: value for name, value in reply.items() if name != "id"}

    async def _request(self, op: str, fields: dict[str, Any]) -> dict[str, Any]:
        self._used = True
        return await self._line.run(operations.request(self._line.core, 0, op, fields))

    # Drains of queues.

    async def drain_take(
        self,
        queue: Destination | str,
        drain: str,
        after: int,
        *,
        messages: int | None = None,
        max_bytes: int | None = None,
        seconds: int | None = None,
        identity: str | None = None,
    ) -> DrainTake:
        """Locks messages of a queue for a drain, durably, as its take number after + 1, highest priority first.

        The same number gets the same messages, however often it is asked for. They stay locked until they are finished
        or released, or until nobody has spoken of the drain for so many seconds (a day, unless given).
        """
        self._used = True
        return await self._line.run(
            draining.take_steps(self._line.core, queue, drain, after, messages, max_bytes, seconds, identity)
        )

    async def drain_list(
        self,
        queue: Destination | str,
        drain: str,
        after: int = 0,
        upto: int | None = None,
        *,
        identity: str | None = None,
    ) -> list[DrainTake]:
        """The takes behind a number that a drain still holds; those that are finished or released are missing."""
        self._used = True
        return await self._line.run(draining.list_steps(self._line.core, queue, drain, after, upto, identity))

    async def drain_finish(
        self, queue: Destination | str, drain: str, upto: int, *, identity: str | None = None
    ) -> int:
        """Acknowledges all takes up to a number, and says how many messages that were."""
        self._used = True
        return await self._line.run(draining.finish_steps(self._line.core, queue, drain, upto, identity))

    async def drain_release(self, queue: Destination | str, drain: str, *, identity: str | None = None) -> int:
        """Ends a drain: what it has not finished goes back to the queue, flagged as redelivered."""
        self._used = True
        return await self._line.run(draining.release_steps(self._line.core, queue, drain, identity))

    # The end.

    async def close(self) -> None:
        """Closes all sessions, waiting for what is under way, and hangs up. May be called again."""
        await self._close(acknowledge=True)

    async def _close(self, acknowledge: bool) -> None:
        if self._line.core.left_behind:
            self._closed = True
            self._finalizer.detach()
            return
        if any(session._worker.is_current for session in self._sessions):
            raise IllegalState("A listener or a completion callback can't close its own connection.")
        if self._closed:
            return
        self._closed = True
        self._finalizer.detach()
        late: TimedOut | None = None
        closing = ClosingTime()
        try:
            for session in list(self._sessions):
                try:
                    await session._close(acknowledge, closing.next_limit(time.monotonic()))
                except TimedOut as error:
                    late = late or error
        finally:
            await _hang_up(self._line)
            for session in list(self._sessions):
                await session._worker.join()
        if late is not None:
            raise late

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(acknowledge=kind is None)
