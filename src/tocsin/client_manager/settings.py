"""What a client manager is told when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.model.faults import Faults
from tocsin.model.limits import (
    BLOCK_BYTES_MAX,
    CONNECTIONS_MAX,
    HEARTBEAT_SECONDS,
    LOGIN_SECONDS_MAX,
    MESSAGE_BYTES_DEFAULT,
    SESSION_GRACE_SECONDS,
)


@dataclass(slots=True)
class Settings:
    product: str = "tocsin"
    message_bytes_max: int = MESSAGE_BYTES_DEFAULT
    block_bytes_max: int = BLOCK_BYTES_MAX
    heartbeat: float = HEARTBEAT_SECONDS
    grace: float = SESSION_GRACE_SECONDS
    login: float = LOGIN_SECONDS_MAX
    host: str = ""
    """Which host this is: clients on it may read the files of message managers that are on it, too."""
    clustered: bool = False
    """There are other client managers: what must be unique is agreed on with the groups."""
    connections_max: int = CONNECTIONS_MAX
    """Fewer where the system leaves no room for more."""
    faults: Faults = field(default_factory=Faults)
