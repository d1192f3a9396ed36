"""`tocsin browse`: looks at a queue's messages without taking them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli import exits, options
from tocsin.cli.messages import as_line, as_object
from tocsin.cli.output import LineWriter
from tocsin.model.destination import Kind

if TYPE_CHECKING:
    import tocsin


def browse(
    queue: options.DestinationArgument,
    selector: Annotated[str | None, typer.Option(help="SQL-like: \"region = 'EU' AND amount > 5\".")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="At most so many.")] = None,
    url: options.Url = options.URL_DEFAULT,
    user: options.User = None,
    password: options.Password = None,
    tls_ca: options.TlsCa = None,
    json: options.Json = False,
) -> None:
    """Show the messages of a queue, a line each, and leave them there; exit code 3 when there are none."""
    if queue.kind is not Kind.QUEUE:
        raise typer.BadParameter("Only queues can be browsed; `tocsin receive --from` reads a retained topic.")
    with options.Access(url, user, password, tls_ca).connect() as connection:
        # To a program a queue exists from its first use on, browsing included; here a name may be mistyped.
        connection.show_destination(queue)
        with connection.session() as session, session.browser(queue, selector=selector) as browser:
            seen = _write(islice(browser, count), json)
    if not seen:
        raise typer.Exit(exits.NOTHING_FOUND)


def _write(messages: Iterable[tocsin.Message], json: bool) -> int:
    seen = 0
    with LineWriter() as out:
        for message in messages:
            seen += 1
            if json:
                out.json(as_object(message))
            else:
                out.line(as_line(message))
    return seen
