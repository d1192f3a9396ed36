"""Where the server is and who asks: the options that source and sink share."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field, replace
from pathlib import Path

from tocsin.client.opening import make_settings, tls_context
from tocsin.client.settings import RECONNECT_SECONDS
from tocsin.client.sync import Connection
from tocsin.client.url import parse_url
from tocsin.model.errors import ConfigError
from tocsin.model.secret import Secret, secret
from tocsin.runtime.tls import Certificate, client_context
from tocsin.spark.option_values import OptionValues

SERVER_OPTIONS = (
    "url", "user", "password", "tlsCa", "tlsCertificate", "tlsKey", "tlsCheckHostname", "connectTimeout",
    "reconnectTimeout",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Travels to the executors, so TLS files are named and not read."""

    url: str = field(repr=False)
    user: str | None = None
    password: str | Secret | None = None
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_check_hostname: bool = True
    connect_timeout: float | None = None
    reconnect_timeout: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "password", secret(self.password))

    @property
    def patience(self) -> float:
        """So many seconds a server may be away, or leave a question without an answer."""
        if self.reconnect_timeout is not None:
            return self.reconnect_timeout
        return parse_url(self.url).numbers.get("reconnect_timeout", RECONNECT_SECONDS)

    def connect(self) -> Connection:
        settings = make_settings(
            self.url,
            user=self.user,
            password=self.password,
            client_id=None,
            autostart=True,
            serializers=None,
            connect_timeout=self.connect_timeout,
            reconnect_timeout=self.patience,
            answer_timeout=self.patience,
        )
        # Workers begin with different servers of the list, so that no one of them carries all tasks.
        hosts = settings.url.hosts
        turn = os.getpid() % len(hosts)
        settings.url = replace(settings.url, hosts=hosts[turn:] + hosts[:turn])
        return Connection(settings, tls_context(settings.url, self._tls()))

    def _tls(self) -> ssl.SSLContext | None:
        if self.tls_ca is None and self.tls_certificate is None and self.tls_check_hostname:
            return None
        own = None
        if self.tls_certificate is not None:
            own = Certificate(Path(self.tls_certificate), Path(self.tls_key or self.tls_certificate))
        ca = None if self.tls_ca is None else Path(self.tls_ca)
        return client_context(ca=ca, own=own, check_hostname=self.tls_check_hostname)

    def __str__(self) -> str:
        """The server without what is secret."""
        scheme, separator, rest = self.url.partition("://")
        return f"{scheme}{separator}{rest.partition('?')[0].rpartition('@')[2].removesuffix('/')}"


def read_server(values: OptionValues) -> ServerOptions:
    if values.has("tlsKey") and not values.has("tlsCertificate"):
        raise ConfigError("The option tlsKey needs tlsCertificate, the certificate that the key belongs to.")
    server = ServerOptions(
        url=values.required("url", "tocsin://localhost:7177"),
        user=values.text("user"),
        password=values.text("password"),
        tls_ca=values.text("tlsCa"),
        tls_certificate=values.text("tlsCertificate"),
        tls_key=values.text("tlsKey"),
        tls_check_hostname=values.flag("tlsCheckHostname", True),
        connect_timeout=values.seconds("connectTimeout", None),
        reconnect_timeout=values.seconds("reconnectTimeout", None),
    )
    # A bad URL or a user without a password is found now, and not on an executor.
    make_settings(
        server.url, user=server.user, password=server.password, client_id=None, autostart=True, serializers=None
    )
    return server
