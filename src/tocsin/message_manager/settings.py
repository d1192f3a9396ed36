"""What a message manager is told when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.message_manager.destination import Options
from tocsin.model.faults import Faults
from tocsin.model.limits import CACHE_BYTES_DEFAULT, LEASE_SECONDS, SESSION_GRACE_SECONDS


@dataclass(slots=True)
class Settings:
    lease: float = LEASE_SECONDS
    cache_bytes: int = CACHE_BYTES_DEFAULT
    defaults: Options = field(default_factory=Options)
    grace: float = SESSION_GRACE_SECONDS
    """How long what came from a client manager waits for another one, when the first is gone."""
    most_copies: int = 1
    """How many copies the group makes when all its members are there: more can't be asked for."""
    cluster: str = ""
    host: str = ""
    """Where this is. A lone server is a cluster by its journal's name; who is on the host may be told of files."""
    faults: Faults = field(default_factory=Faults)
