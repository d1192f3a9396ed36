"""An application's own class, and the serializer that lets it travel."""

from __future__ import annotations

import json
from dataclasses import dataclass

import tocsin


@dataclass
class Order:
    """What an application might want to send as an object."""

    item: str
    count: int


@dataclass
class RushOrder(Order):
    hours: int = 1


def order_serializers() -> tocsin.Serializers:
    serializers = tocsin.Serializers()
    serializers.add("order", Order, dump_order, load_order)
    return serializers


def dump_order(order: Order) -> bytes:
    return json.dumps([order.item, order.count]).encode()


def load_order(data: bytes) -> Order:
    return Order(*json.loads(data))
