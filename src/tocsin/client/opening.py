"""From the arguments of connect() to settings and a line; those given in the call win over those in the URL."""

from __future__ import annotations

import logging
import os
import socket
import ssl
from contextlib import suppress
from typing import Any

from tocsin.client.settings import CONNECT_SECONDS, RECONNECT_SECONDS, Settings
from tocsin.client.url import Place, ServerUrl, parse_url
from tocsin.model.bodies import NO_SERIALIZERS, Serializers
from tocsin.model.errors import ConfigError, ConnectionFailed
from tocsin.model.limits import FRAME_BYTES_BEFORE_LOGIN, HEARTBEAT_SECONDS
from tocsin.model.secret import Secret, secret
from tocsin.runtime import local
from tocsin.runtime.local import is_loopback
from tocsin.wire.channel_binding import server_end_point

LOG = logging.getLogger("tocsin.client")
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
    password: str | Secret | None,
    client_id: str | None,
    autostart: bool,
    serializers: Serializers | None,
    **numbers: float | None,
) -> Settings:
    parsed = parse_url(url)
    given: dict[str, Any] = {}
    for name, default in _NUMBERS.items():
        number = numbers.get(name)
        given[name] = float(number) if number is not None else parsed.numbers.get(name, default)
    user = parsed.user if user is None else user
    password = parsed.password if password is None else secret(password)
    if user is not None and password is None:
        raise ConfigError(f"The user {user!r} needs a password: password=... or user:password@ in the URL.")
    return Settings(
        url=parsed,
        user=user,
        password=password,
        client_id=parsed.client_id if client_id is None else client_id,
        autostart=autostart,
        serializers=NO_SERIALIZERS if serializers is None else serializers,
        **given,
    )


def tls_context(url: ServerUrl, given: ssl.SSLContext | bool | None) -> ssl.SSLContext | None:
    """TLS with host names checked, unless a context of the application's own says otherwise."""
    if given is False and url.tls:
        raise ConfigError("The URL says tocsins://, which is TLS, and ssl=False says no TLS; change one of them.")
    if (given or url.tls) and any(place.path is not None for place in url.hosts):
        raise ConfigError("A local socket has no TLS: write tocsin:// where the URL has unix:, and leave ssl away.")
    if isinstance(given, ssl.SSLContext):
        return given
    return ssl.create_default_context() if given or url.tls else None


def warn_of_login_in_clear(settings: Settings, tls: ssl.SSLContext | None) -> None:
    """Says so when a login is to cross a network that anybody may read, and change what follows."""
    away = [str(place) for place in settings.url.hosts if place.path is None and not is_loopback(place.host)]
    if settings.user is not None and tls is None and away:
        LOG.warning(
            "The user %r logs in to %s without TLS: whoever is on the way can read all messages, change them, and act "
            "as this client. Write tocsins:// in the URL.",
            settings.user,
            ", ".join(away),
        )


def channel_binding(tls: ssl.SSLSocket | ssl.SSLObject | None) -> bytes | None:
    """What a login over this connection is bound to; None in clear. Raises SSLError."""
    if tls is None:
        return None
    try:
        return server_end_point(tls.getpeercert(binary_form=True) or b"")
    except ValueError as error:
        raise ssl.SSLError("the server has shown no certificate that can be read") from error


def dial(settings: Settings, tls: ssl.SSLContext | None, place: Place) -> tuple[socket.socket, bytes | None]:
    """A connection to a server that does not block, and what a login over it is bound to."""
    if place.path is not None:
        return local.dial(place.path), None
    line = socket.create_connection(place, timeout=settings.connect_timeout)
    try:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secure = None if tls is None else tls.wrap_socket(line, server_hostname=place.host)
        line = secure or line
        binding = channel_binding(secure)
        line.setblocking(False)
    except BaseException:
        line.close()
        raise
    return line, binding


def connect_failure(place: Place, error: Exception) -> ConnectionFailed:
    """Why a server could not be connected to, as a sentence."""
    tls_reason = getattr(error, "reason", None)
    if isinstance(error, ssl.SSLError) and tls_reason == _NO_TLS:
        failure = ConnectionFailed(f"{place} does not seem to speak TLS; if so, write tocsin:// in its URL.")
    elif isinstance(error, ssl.SSLError):
        reason = getattr(error, "verify_message", None) or tls_reason or error.args[0]
        failure = ConnectionFailed(f"TLS with {place} failed: {reason}. Does the server speak TLS, with a known CA?")
    elif isinstance(error, OSError):
        reason = error.strerror or str(error) or "no answer in time"
        failure = ConnectionFailed(f"No server answers at {place}: {reason}. Is it running?")
    else:
        # Such as a certificate with names that are no text.
        failure = ConnectionFailed(f"No connection to {place} could be opened: {error}. Is it a tocsin server?")
    failure.__cause__ = error
    return failure


def last_words(line: socket.socket) -> bytes:
    """What has come on a line that broke in writing, and was not read; empty when there is nothing."""
    with suppress(OSError), socket.socket(fileno=os.dup(line.fileno())) as rest:
        rest.setblocking(False)
        return rest.recv(FRAME_BYTES_BEFORE_LOGIN)
    return b""


def line_failure(error: Exception | None, *, logging_in: bool, may_lack_tls: bool) -> ConnectionFailed:
    """Why a line has ended, as a sentence; without an error the server has closed it."""
    what = f"The connection to the server broke: {error}" if error else "The server has closed the connection"
    if logging_in and may_lack_tls:
        # A server that speaks TLS hangs up on a client that does not, and can't say why.
        return ConnectionFailed(f"{what} before the login; if it speaks TLS, write tocsins:// in its URL.")
    return ConnectionFailed(f"{what}.")
