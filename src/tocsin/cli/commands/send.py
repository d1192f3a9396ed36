"""`tocsin send`: messages from arguments, from a file, or from standard input, a line each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli import options
from tocsin.cli.output import note, print_json
from tocsin.cli.progress import Advance, progress_bar
from tocsin.cli.properties import read_properties
from tocsin.model.errors import MessageFormatError

if TYPE_CHECKING:
    import tocsin

Body = str | bytes
PROGRESS_EVERY = 10_000


def send(
    destination: options.DestinationArgument,
    body: Annotated[
        list[str] | None,
        typer.Argument(metavar="BODY", help="A message each; without any, a message per line of input."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="One message, the bytes of this file.")] = None,
    as_bytes: Annotated[bool, options.flag("--bytes", help="Bodies are bytes, not text.")] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME[:TYPE]=VALUE", help="May be repeated; amount:int=5."),
    ] = None,
    priority: Annotated[int | None, typer.Option(min=0, max=9, help="4 if not given.")] = None,
    ttl: Annotated[Any, options.duration_option("--ttl", help="Expires after this time.")] = None,
    delay: Annotated[Any, options.duration_option("--delay", help="Not delivered before this time has passed.")] = None,
    key: Annotated[str | None, typer.Option(help="Key of the message.")] = None,
    group: Annotated[str | None, typer.Option(help="Messages of a group go to one consumer.")] = None,
    message_type: Annotated[str | None, typer.Option("--type", help="JMSType header.")] = None,
    correlation_id: Annotated[str | None, typer.Option(help="What this message answers.")] = None,
    reply_to: Annotated[
        Any,
        typer.Option(parser=options.usage(options.read_destination), metavar="DESTINATION", help="Where to answer."),
    ] = None,
    url: options.Url = options.URL_DEFAULT,
    user: options.User = None,
    password: options.Password = None,
    tls_ca: options.TlsCa = None,
    json: options.Json = False,
) -> None:
    """Send messages, and return when all of them are stored durably."""
    if file is not None and body:
        raise typer.BadParameter("Give bodies or --file, not both.")
    headers: dict[str, Any] = {
        "properties": options.usage(read_properties)(properties) if properties else None,
        "priority": priority,
        "ttl": ttl,
        "delay": delay,
        "key": key,
        "group_id": group,
        "type": message_type,
        "correlation_id": correlation_id,
        "reply_to": reply_to,
    }
    given = {name: value for name, value in headers.items() if value is not None}
    with options.Access(url, user, password, tls_ca).connect() as connection, connection.session() as session:
        producer = session.producer(destination)
        if body or file is not None:
            count = _send_each(producer, _bodies(body, file, as_bytes), given)
        else:
            count = _send_lines(producer, as_bytes, given)
    if json:
        print_json({"destination": str(destination), "sent": count})
    elif sys.stderr.isatty():
        note(f"{count:,} sent to {destination}.")


def _bodies(texts: list[str] | None, file: Path | None, as_bytes: bool) -> list[Body]:
    if file is not None:
        return [file.read_bytes()]
    return [text.encode("utf-8", "surrogateescape") if as_bytes else text for text in texts or ()]


def _send_each(producer: tocsin.Producer, bodies: Iterable[Body], headers: dict[str, Any]) -> int:
    count = 0
    for body in bodies:
        producer.send(body, **headers)
        count += 1
    return count


def _send_lines(producer: tocsin.Producer, as_bytes: bool, headers: dict[str, Any]) -> int:
    if sys.stdin.isatty():
        note("A message per line; Ctrl-D ends.")
        return _send_each(producer, _lines(as_bytes), headers)
    with progress_bar("Sending") as advance:
        return producer.send_many(_counted(_lines(as_bytes), advance), **headers)


def _lines(as_bytes: bool) -> Iterator[Body]:
    """Only the line feed is taken off: whatever else a line holds is the sender's."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        content = line.removesuffix(b"\n")
        if as_bytes:
            yield content
            continue
        try:
            yield content.decode()
        except UnicodeDecodeError:
            raise MessageFormatError(
                f"Line {number} of the input is not UTF-8 text; --bytes sends lines as they are. "
                f"Earlier lines are being sent."
            ) from None


def _counted(bodies: Iterator[Body], advance: Advance) -> Iterator[Body]:
    for number, body in enumerate(bodies, 1):
        if number % PROGRESS_EVERY == 0:
            advance(PROGRESS_EVERY)
        yield body
