"""`tocsin receive`: takes messages and writes a line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli import exits, options
from tocsin.cli.interrupts import undisturbed
from tocsin.cli.messages import as_line, as_object
from tocsin.cli.output import LineWriter
from tocsin.model.destination import Destination, Kind
from tocsin.model.limits import PREFETCH_DEFAULT

if TYPE_CHECKING:
    import tocsin

TIMEOUT_SECONDS_DEFAULT = 2.0
ACKNOWLEDGE_EVERY = 1_000


def receive(
    destination: options.DestinationArgument,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many messages.")] = None,
    timeout: Annotated[
        Any,
        options.duration_option("--timeout", help="End when nothing came for so long; 2s if not given."),
    ] = None,
    follow: Annotated[bool, options.flag("--follow", "-f", help="Wait for more, for ever or for --timeout.")] = False,
    selector: Annotated[str | None, typer.Option(help="SQL-like: \"region = 'EU' AND amount > 5\".")] = None,
    subscription: Annotated[str | None, typer.Option(help="Name of a topic subscription.")] = None,
    durable: Annotated[bool, options.flag("--durable", help="The subscription outlives this run.")] = False,
    shared: Annotated[bool, options.flag("--shared", help="Several consumers share the subscription.")] = False,
    start: Annotated[
        Any,
        options.start_option("--from", help="Retained topics: earliest, latest, an offset, a time, or how long ago."),
    ] = None,
    ack: Annotated[bool, options.flag("--ack/--no-ack", help="--no-ack leaves the messages where they are.")] = True,
    client_id: Annotated[str | None, typer.Option(help="Owner of a durable subscription that is not shared.")] = None,
    url: options.Url = options.URL_DEFAULT,
    user: options.User = None,
    password: options.Password = None,
    tls_ca: options.TlsCa = None,
    json: options.Json = False,
) -> None:
    """Take what is there, a line each; exit code 3 when nothing (or less than --count) came in time."""
    view = _View(destination, selector, subscription, durable, shared, start)
    patience = timeout if timeout is not None else None if follow else TIMEOUT_SECONDS_DEFAULT
    access = options.Access(url, user, password, tls_ca, client_id)
    with access.connect() as connection, connection.session(ack="client") as session:
        consumer = view.open(session, min(count or PREFETCH_DEFAULT, PREFETCH_DEFAULT))
        messages = _until_silence(consumer, patience, count)
        taken = _write(messages, json=json, ack=ack and not view.is_replay)
    if taken == 0 or (count is not None and taken < count):
        raise typer.Exit(exits.NOTHING_FOUND)


class _View:
    """Which of a destination's views the options ask for; mistakes are usage errors."""

    def __init__(
        self,
        destination: Destination,
        selector: str | None,
        subscription: str | None,
        durable: bool,
        shared: bool,
        start: Any,
    ) -> None:
        if destination.kind is Kind.QUEUE and (subscription or durable or shared or start is not None):
            raise typer.BadParameter(f"Subscriptions and --from are for topics; did you mean topic:{destination.name}?")
        if (durable or shared) and not subscription:
            raise typer.BadParameter("--durable and --shared need --subscription NAME.")
        self._destination = destination
        self._options: dict[str, Any] = {"selector": selector}
        self._start = start
        # A place to start without a subscription is a replay: nothing is locked, nothing acknowledged.
        self.is_replay = start is not None and subscription is None
        if subscription:
            self._options |= {"subscription": subscription, "durable": durable, "shared": shared}

    def open(self, session: tocsin.Session, prefetch: int) -> tocsin.Consumer:
        if self.is_replay:
            return session.replay(self._destination, start=self._start, **self._options)
        if self._start is not None:
            self._options["start"] = self._start
        return session.consumer(self._destination, prefetch=prefetch, **self._options)


def _until_silence(
    consumer: tocsin.Consumer, patience: float | None, count: int | None
) -> Iterator[tocsin.Message | None]:
    """Messages, and None whenever the next one has to be waited for."""
    given = 0
    while count is None or given < count:
        message = consumer.receive_nowait()
        if message is None:
            yield None
            message = consumer.receive(timeout=patience)
            if message is None:
                return
        given += 1
        yield message


def _write(messages: Iterator[tocsin.Message | None], *, json: bool, ack: bool) -> int:
    """Acknowledges only what standard output has taken, so a pipe that breaks loses nothing."""
    taken = unacknowledged = 0
    last: tocsin.Message | None = None
    with LineWriter() as out:

        def settle() -> None:
            nonlocal unacknowledged
            # Who has seen a line may interrupt at once: then, too, its message was taken.
            with undisturbed():
                out.flush()
                if ack and last is not None and unacknowledged:
                    last.acknowledge()
            unacknowledged = 0

        for message in messages:
            if message is None:
                settle()
                continue
            if json:
                out.json(as_object(message))
            else:
                out.line(as_line(message))
            last = message
            taken += 1
            unacknowledged += 1
            if unacknowledged == ACKNOWLEDGE_EVERY:
                settle()
        settle()
    return taken
