"""Options that many verbs share. Each is an annotation, so that a verb only lists what it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tocsin.cli.names import read_destination
from tocsin.cli.quantities import read_duration, read_size, read_start
from tocsin.model.destination import Destination
from tocsin.model.errors import ConfigError, InvalidDestination

if TYPE_CHECKING:
    import tocsin

URL_DEFAULT = "tocsin://localhost:7177"

Given = TypeVar("Given")
Value = TypeVar("Value")


def usage(read: Callable[[Given], Value]) -> Callable[[Given], Value]:
    """A reader whose complaint becomes a usage error (exit code 2) that names the option."""

    def parse(given: Given) -> Value:
        try:
            return read(given)
        except (ValueError, InvalidDestination) as error:
            raise typer.BadParameter(str(error)) from None

    return parse


def flag(*names: str, help: str) -> Any:  # noqa: A002 - typer's own word
    """An option without a value; typer would show one, `<bool>`."""
    return typer.Option(*names, metavar="", help=help)


def _start(text: str) -> Any:
    return read_start(text, datetime.now(UTC))


Url = Annotated[str, typer.Option("--url", envvar="TOCSIN_URL", help="Server to talk to; several hosts by comma.")]
User = Annotated[str | None, typer.Option("--user", envvar="TOCSIN_USER", help="Who asks.")]
Password = Annotated[
    str | None,
    typer.Option("--password", envvar="TOCSIN_PASSWORD", help="Better given by the variable: others see options."),
]
TlsCa = Annotated[Path | None, typer.Option("--tls-ca", help="Trust servers with a certificate from this PEM file.")]
Json = Annotated[bool, flag("--json", help="JSON on standard output.")]

DestinationArgument = Annotated[
    Destination,
    typer.Argument(
        metavar="DESTINATION",
        parser=usage(read_destination),
        help="orders or queue:orders is a queue, topic:prices a topic.",
        show_default=False,
    ),
]


def duration_option(*names: str, help: str, show_default: bool | str = True) -> Any:  # noqa: A002 - typer's own word
    return typer.Option(*names, parser=usage(read_duration), metavar="TIME", help=help, show_default=show_default)


def size_option(*names: str, help: str) -> Any:  # noqa: A002 - typer's own word
    return typer.Option(*names, parser=usage(read_size), metavar="SIZE", help=help)


def start_option(*names: str, help: str) -> Any:  # noqa: A002 - typer's own word
    return typer.Option(*names, parser=usage(_start), metavar="START", help=help)


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server is and who asks."""

    url: str = field(repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_ca: Path | None = None
    client_id: str | None = None

    def connect(self) -> tocsin.Connection:
        import tocsin
        from tocsin.client.url import parse_url

        if self.user is not None and self.password is None and parse_url(self.url).password is None:
            raise ConfigError(f"The user {self.user!r} needs a password: set TOCSIN_PASSWORD, or give --password.")
        context = None
        if self.tls_ca is not None:
            from tocsin.runtime.tls import client_context

            context = client_context(ca=self.tls_ca)
        return tocsin.connect(self.url, user=self.user, password=self.password, client_id=self.client_id, ssl=context)
