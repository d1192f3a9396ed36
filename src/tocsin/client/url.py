"""tocsin://user:password@host:port,host2:port2/?client_id=...&heartbeat=... and tocsins:// for TLS."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from tocsin.model.errors import ConfigError

PORT_DEFAULT = 7177
SCHEMES = ("tocsin", "tocsins")
_NUMBERS = ("heartbeat", "connect_timeout", "reconnect_timeout", "answer_timeout")
_WORDS = ("client_id", "transport")
TRANSPORTS = ("auto", "tcp")
"""auto: a server on this host by a local socket, where it has one; all others by TCP."""


@dataclass(frozen=True, slots=True)
class ServerUrl:
    hosts: tuple[tuple[str, int], ...]
    tls: bool = False
    user: str | None = None
    password: str | None = None
    client_id: str | None = None
    transport: str | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    """heartbeat and the three timeouts: those that the URL gives, in seconds."""

    def __str__(self) -> str:
        """Without the password, so that it can be shown."""
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return f"{SCHEMES[self.tls]}://{self.user + '@' if self.user else ''}{hosts}"


def parse_url(text: str) -> ServerUrl:
    """Reads a URL; a bad one gets a sentence that says what to change and never shows a password."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ConfigError("The server's URL must begin with tocsin:// or tocsins://, as in tocsin://localhost:7177.")
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    login, _, places = authority.rpartition("@")
    if path:
        raise ConfigError("The server's URL has no path; options follow as in tocsin://host/?client_id=me.")
    user, colon, password = login.partition(":")
    words, numbers = _read_options(query)
    return ServerUrl(
        tuple(_read_host(place) for place in places.split(",")),
        scheme == "tocsins",
        unquote(user) or None,
        unquote(password) if colon else None,
        words.get("client_id"),
        words.get("transport"),
        numbers,
    )


def _read_host(place: str) -> tuple[str, int]:
    host, port = place, ""
    if place.startswith("["):
        host, bracket, port = place[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ConfigError(f"The host {place!r} in the server's URL lacks its closing bracket.")
        port = port[1:]
    elif ":" in place:
        host, _, port = place.rpartition(":")
    if not host or (":" in host and not place.startswith("[")):
        raise ConfigError(f"{place!r} in the server's URL is no host; write host:port, or [address]:port for IPv6.")
    if not port:
        return host, PORT_DEFAULT
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise ConfigError(f"The port {port!r} in the server's URL is not a number from 1 to 65535.")
    return host, int(port)


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
        else:
            known = ", ".join((*_WORDS, *_NUMBERS))
            raise ConfigError(f"The server's URL has the unknown option {name!r}; there are {known}.")
    return words, numbers
