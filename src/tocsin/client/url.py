"""tocsin://user:password@host:port,host2:port2/?client_id=...&heartbeat=... and tocsins:// for TLS.

A server on this host can be named by its local socket, as in tocsin://unix:/var/lib/tocsin/client.socket: alone, or as
one of a list. In the path `,`, `?`, `@` and `%` are written as %2C, %3F, %40 and %25.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from tocsin.model.errors import ConfigError
from tocsin.model.secret import Secret

PORT_DEFAULT = 7177
SCHEMES = ("tocsin", "tocsins")
_NUMBERS = ("heartbeat", "connect_timeout", "reconnect_timeout", "answer_timeout")
_WORDS = ("client_id",)
_UNIX = "unix:"


class Place(NamedTuple):
    """Where a server is: a host and its port; or "unix:" with a path behind it, which has the port 0."""

    host: str
    port: int

    @property
    def path(self) -> str | None:
        """Of a local socket; None for a host."""
        return None if self.port else self.host.removeprefix(_UNIX)

    def __str__(self) -> str:
        if not self.port:
            return _UNIX + quote(self.host.removeprefix(_UNIX))
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ServerUrl:
    hosts: tuple[Place, ...]
    tls: bool = False
    user: str | None = None
    password: Secret | None = None
    client_id: str | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    """heartbeat and the three timeouts: those that the URL gives, in seconds."""

    def __str__(self) -> str:
        """Without the password, so that it can be shown."""
        hosts = ",".join(map(str, self.hosts))
        return f"{SCHEMES[self.tls]}://{self.user + '@' if self.user else ''}{hosts}"


def parse_url(text: str) -> ServerUrl:
    """Reads a URL; a bad one gets a sentence that says what to change and never shows a password."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ConfigError("The server's URL must begin with tocsin:// or tocsins://, as in tocsin://localhost:7177.")
    rest, _, query = rest.partition("?")
    login, _, places = rest.rpartition("@")
    user, colon, password = login.partition(":")
    # First, because a part of a password may have been taken for options.
    hosts = tuple(_read_place(place) for place in places.removesuffix("/").split(","))
    words, numbers = _read_options(query)
    return ServerUrl(
        hosts,
        scheme == "tocsins",
        unquote(user) or None,
        Secret(unquote(password)) if colon else None,
        words.get("client_id"),
        numbers,
    )


def _read_place(place: str) -> Place:
    if not place.startswith(_UNIX):
        return Place(*_read_host(place))
    path = unquote(place.removeprefix(_UNIX))
    if not path or "\0" in path:
        raise ConfigError(
            "unix: in the server's URL needs the path of a socket, as in unix:/var/lib/tocsin/client.socket."
        )
    return Place(_UNIX + path, 0)


def _read_host(place: str) -> tuple[str, int]:
    if "/" in place:
        raise ConfigError("The server's URL has no path; options follow as in tocsin://host/?client_id=me.")
    host, port = place, ""
    if place.startswith("["):
        host, bracket, port = place[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ConfigError("An address in the server's URL lacks its closing bracket; write [address]:port.")
        port = port[1:]
    elif ":" in place:
        host, _, port = place.rpartition(":")
    if not host or (":" in host and not place.startswith("[")):
        raise ConfigError(
            "The server's URL names no host; write host:port, or [address]:port for IPv6, behind the @ of a login."
        )
    _check_name(host)
    if not port:
        return host, PORT_DEFAULT
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        # It may be a password whose @ and host were forgotten.
        raise ConfigError("A port in the server's URL is not a number from 1 to 65535; a login ends with @.")
    return host, int(port)


def _check_name(host: str) -> None:
    """Whether a host may be called so. It is not shown: it may be a password whose @ and host were forgotten."""
    try:
        host.encode("idna")  # As it is when it is looked up.
    except UnicodeError:
        raise ConfigError(
            "A host in the server's URL is not written as one: there are 1 to 63 characters between two dots, "
            "as in server.example."
        ) from None


def _read_options(query: str) -> tuple[dict[str, str], dict[str, float]]:
    words: dict[str, str] = {}
    numbers: dict[str, float] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _WORDS:
            if value:
                words[name] = value
        elif name in _NUMBERS:
            try:
                numbers[name] = float(value)
            except ValueError:
                raise ConfigError(f"The option {name}={value} of the server's URL is not a number.") from None
        elif "@" in query:
            raise ConfigError("A ? in a user's name or password is written as %3F in the server's URL.")
        else:
            known = ", ".join((*_WORDS, *_NUMBERS))
            raise ConfigError(f"The server's URL has the unknown option {name!r}; there are {known}.")
    return words, numbers
