"""From the arguments of connect() to settings and a line; those given in the call win over those in the URL."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from tocsin.client.settings import CONNECT_SECONDS, RECONNECT_SECONDS, Settings
from tocsin.client.url import TRANSPORTS, ServerUrl, parse_url
from tocsin.model.bodies import NO_SERIALIZERS, Serializers
from tocsin.model.errors import ConfigError, ConnectionFailed
from tocsin.model.limits import HEARTBEAT_SECONDS
from tocsin.runtime import local

_NO_TLS = "WRONG_VERSION_NUMBER"
"""What OpenSSL makes of an answer that is none of TLS."""
_NUMBERS: dict[str, float | None] = {
    "heartbeat": HEARTBEAT_SECONDS,
    "connect_timeout": CONNECT_SECONDS,
    "reconnect_timeout": RECONNECT_SECONDS,
    "answer_timeout": None,
}


def make_settings(
    url: str,
    *,
    user: str | None,
    password: str | None,
    client_id: str | None,
    autostart: bool,
    serializers: Serializers | None,
    transport: str | None = None,
    **numbers: float | None,
) -> Settings:
    parsed = parse_url(url)
    given: dict[str, Any] = {}
    for name, default in _NUMBERS.items():
        number = numbers.get(name)
        given[name] = float(number) if number is not None else parsed.numbers.get(name, default)
    user = parsed.user if user is None else user
    password = parsed.password if password is None else password
    if user is not None and password is None:
        raise ConfigError(f"The user {user!r} needs a password: password=... or user:password@ in the URL.")
    return Settings(
        url=parsed,
        user=user,
        password=password,
        client_id=parsed.client_id if client_id is None else client_id,
        transport=transport or parsed.transport or TRANSPORTS[0],
        autostart=autostart,
        serializers=NO_SERIALIZERS if serializers is None else serializers,
        **given,
    )


def tls_context(url: ServerUrl, given: ssl.SSLContext | bool | None) -> ssl.SSLContext | None:
    """TLS with host names checked, unless a context of the application's own says otherwise."""
    if isinstance(given, ssl.SSLContext):
        return given
    if given is False and url.tls:
        raise ConfigError("The URL says tocsins://, which is TLS, and ssl=False says no TLS; change one of them.")
    return ssl.create_default_context() if given or url.tls else None


def dial_local(settings: Settings, tls: ssl.SSLContext | None, host: str, port: int) -> socket.socket | None:
    """The short way to a server on this host, unless the application wants TCP, or TLS and so the server's name."""
    return local.dial(host, port) if tls is None and settings.transport == "auto" else None


def dial(settings: Settings, tls: ssl.SSLContext | None, host: str, port: int) -> socket.socket:
    """A connection to a server, by the short way or by TCP, that does not block."""
    line = dial_local(settings, tls, host, port)
    if line is not None:
        return line
    line = socket.create_connection((host, port), timeout=settings.connect_timeout)
    try:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            line = tls.wrap_socket(line, server_hostname=host)
        line.setblocking(False)
    except BaseException:
        line.close()
        raise
    return line


def connect_failure(host: str, port: int, error: Exception) -> ConnectionFailed:
    """Why a server could not be connected to, as a sentence."""
    if isinstance(error, ssl.SSLError) and error.reason == _NO_TLS:
        failure = ConnectionFailed(f"{host}:{port} does not seem to speak TLS; if so, write tocsin:// in its URL.")
    elif isinstance(error, ssl.SSLError):
        reason = getattr(error, "verify_message", None) or error.reason or error
        failure = ConnectionFailed(
            f"TLS with {host}:{port} failed: {reason}. Does the server speak TLS, with a known CA?"
        )
    else:
        reason = getattr(error, "strerror", None) or str(error) or "no answer in time"
        failure = ConnectionFailed(f"No server answers at {host}:{port}: {reason}. Is it running?")
    failure.__cause__ = error
    return failure


def line_failure(error: Exception | None, *, logging_in: bool, tls: bool) -> ConnectionFailed:
    """Why a line has ended, as a sentence; without an error the server has closed it."""
    what = f"The connection to the server broke: {error}" if error else "The server has closed the connection"
    if logging_in and not tls:
        # A server that speaks TLS hangs up on a client that does not, and can't say why.
        return ConnectionFailed(f"{what} before the login; if it speaks TLS, write tocsins:// in its URL.")
    return ConnectionFailed(f"{what}.")
