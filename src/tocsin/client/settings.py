"""What a connection was told to be."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tocsin.client.url import ServerUrl
from tocsin.model.bodies import NO_SERIALIZERS, Serializers
from tocsin.model.errors import ConfigError, InvalidClientId
from tocsin.model.limits import CLIENT_ID_BYTES_MAX, HEARTBEAT_SECONDS
from tocsin.model.secret import Secret

CONNECT_SECONDS = 10.0
RECONNECT_SECONDS = 60.0
GOODBYE_SECONDS = 5.0
"""So long a client waits for the server to hang up."""


@dataclass(slots=True)
class Settings:
    url: ServerUrl
    user: str | None = None
    password: Secret | None = None
    client_id: str | None = None
    autostart: bool = True
    heartbeat: float = HEARTBEAT_SECONDS
    connect_timeout: float = CONNECT_SECONDS
    reconnect_timeout: float = RECONNECT_SECONDS
    answer_timeout: float | None = None
    serializers: Serializers = field(default=NO_SERIALIZERS)
    product: str = "tocsin-python"

    def __post_init__(self) -> None:
        for name in ("heartbeat", "connect_timeout", "reconnect_timeout", "answer_timeout"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < 1e9:
                raise ConfigError(f"{name} is a number of seconds greater than 0, not {seconds}.")
        if self.client_id is not None:
            check_client_id(self.client_id)

    def with_client_id(self, client_id: str) -> Settings:
        return replace(self, client_id=client_id)


def check_client_id(client_id: str) -> str:
    if not client_id or len(client_id.encode("utf-8", "surrogatepass")) > CLIENT_ID_BYTES_MAX:
        raise InvalidClientId(f"A client id has 1 to {CLIENT_ID_BYTES_MAX} bytes.")
    return client_id
