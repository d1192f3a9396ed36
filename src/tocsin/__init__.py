"""tocsin: a message server made of many machines that clients see as one.

connect        a connection to a server; then session, producer, consumer
aio            the same names for asyncio
Server         a server inside this process
errors, types  what can go wrong; JMS value types
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocsin import aio, errors, types
    from tocsin.client.admin import DestinationInfo
    from tocsin.client.core_reading import RangeBlock
    from tocsin.client.reading import Offsets
    from tocsin.client.sync import Connection, connect
    from tocsin.client.sync_consumer import Browser, Consumer
    from tocsin.client.sync_producer import Producer
    from tocsin.client.sync_reader import RangeReader
    from tocsin.client.sync_session import Session
    from tocsin.model.bodies import MapBody, Serializers, StreamBody
    from tocsin.model.destination import Destination
    from tocsin.model.message import Message
    from tocsin.model.properties import Properties
    from tocsin.node.server import Server

    __version__: str

__all__ = [
    "Browser",
    "Connection",
    "Consumer",
    "Destination",
    "DestinationInfo",
    "MapBody",
    "Message",
    "Offsets",
    "Producer",
    "Properties",
    "RangeBlock",
    "RangeReader",
    "Serializers",
    "Server",
    "Session",
    "StreamBody",
    "__version__",
    "aio",
    "connect",
    "errors",
    "types",
]

# Imported when first used: parts of the system import this package too, and need none of it.
_PLACES = {
    "Browser": "tocsin.client.sync_consumer",
    "Connection": "tocsin.client.sync",
    "Consumer": "tocsin.client.sync_consumer",
    "Destination": "tocsin.model.destination",
    "DestinationInfo": "tocsin.client.admin",
    "MapBody": "tocsin.model.bodies",
    "Message": "tocsin.model.message",
    "Offsets": "tocsin.client.reading",
    "Producer": "tocsin.client.sync_producer",
    "Properties": "tocsin.model.properties",
    "RangeBlock": "tocsin.client.core_reading",
    "RangeReader": "tocsin.client.sync_reader",
    "Serializers": "tocsin.model.bodies",
    "Server": "tocsin.node.server",
    "Session": "tocsin.client.sync_session",
    "StreamBody": "tocsin.model.bodies",
    "connect": "tocsin.client.sync",
}
_MODULES = frozenset({"aio", "errors", "types"})


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("tocsin.client.admin").own_version()
    elif name in _MODULES:
        value = import_module(f"tocsin.{name}")
    elif name in _PLACES:
        value = getattr(import_module(_PLACES[name]), name)
    else:
        raise AttributeError(f"module 'tocsin' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
