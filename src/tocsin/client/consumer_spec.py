"""What a consumer was asked to be, checked before the server hears of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tocsin.client.headers import as_destination
from tocsin.model.destination import Destination, Kind, check_name
from tocsin.model.errors import IllegalState, InvalidDestination
from tocsin.model.limits import CONSUMER_BUFFER_BYTES, PREFETCH_DEFAULT, PREFETCH_MAX, SUBSCRIPTION_NAME_BYTES_MAX

STARTS = ("earliest", "latest")


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
    """Sent again as it is after a reconnect."""

    destination: Destination
    mode: str
    prefetch: int
    selector: str | None = None
    no_local: bool = False
    subscription: str | None = None
    durable: bool = False
    shared: bool = False
    start: dict[str, Any] | None = None
    buffer_bytes: int = CONSUMER_BUFFER_BYTES
    """What may have come and not been looked at."""


def make_spec(
    destination: Destination | str,
    *,
    mode: str = "consume",
    selector: str | None = None,
    no_local: bool = False,
    prefetch: int = PREFETCH_DEFAULT,
    subscription: str | None = None,
    durable: bool = False,
    shared: bool = False,
    start: Any = None,
) -> ConsumerSpec:
    """Checks what an application asks of a consumer before the server hears of it."""
    where = as_destination(destination)
    if not 0 <= prefetch <= PREFETCH_MAX:
        raise IllegalState(f"prefetch is a whole number from 0 to {PREFETCH_MAX:,}, not {prefetch!r}.")
    if subscription is not None:
        check_subscription_name(subscription)
    if (durable or shared) and subscription is None:
        raise InvalidDestination("A durable or shared subscription needs a name: subscription='...'.")
    if where.kind is Kind.QUEUE and (subscription is not None or no_local or start is not None):
        raise InvalidDestination(f"{where} is a queue; subscriptions, no_local and start are for topics.")
    if mode == "browse" and where.kind is not Kind.QUEUE:
        raise InvalidDestination(f"{where} is a topic; only queues can be browsed.")
    if mode == "replay" and where.kind is not Kind.TOPIC:
        raise InvalidDestination(f"{where} is a queue; only retained topics can be replayed.")
    return ConsumerSpec(
        where, mode, prefetch, selector or None, no_local, subscription, durable, shared, _read_start(start)
    )


def check_subscription_name(name: str) -> str:
    if not name or len(name.encode("utf-8", "surrogatepass")) > SUBSCRIPTION_NAME_BYTES_MAX:
        raise InvalidDestination(f"A subscription name has 1 to {SUBSCRIPTION_NAME_BYTES_MAX} bytes; {name!r} is none.")
    return check_name(name, "subscription")


def milliseconds_of(time: datetime) -> int:
    if time.tzinfo is None:
        raise IllegalState("A time to start from needs its zone, as in datetime.now(timezone.utc).")
    return int(time.timestamp() * 1000)


def _read_start(start: Any) -> dict[str, Any] | None:
    if start is None:
        return None
    if isinstance(start, str) and start in STARTS:
        return {"at": start}
    if isinstance(start, datetime):
        return {"time_ms": milliseconds_of(start)}
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        return {"offset": start}
    raise IllegalState(f"start is 'earliest', 'latest', an offset or a time with its zone, not {start!r}.")
