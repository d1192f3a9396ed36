"""Which destinations a source reads: those named, looked up once, or those that match a pattern at the moment."""

from __future__ import annotations

import re
from collections.abc import Callable

from tocsin.client.admin import DestinationInfo
from tocsin.client.sync import Connection
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import ConfigError, InvalidDestination
from tocsin.model.spark_limits import SPARK_PATTERN_SECONDS
from tocsin.spark.source_options import SourceOptions, given_destination, plain_name

_PLAIN = re.compile(r"[\w-]*")
"""What a pattern begins with before anything special comes."""


class Subscription:
    """Destinations by name. A pattern is looked up again now and then; names keep what they were at first."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float]) -> None:
        self._options = options
        self._clock = clock
        self._found: dict[str, Destination] = {}
        self._looked_at: float | None = None

    def destinations(self, connection: Connection) -> dict[str, Destination]:
        now = self._clock()
        if self._options.pattern is None:
            if self._looked_at is None:
                self._found = {plain_name(name): _look_up(connection, name) for name in self._options.names}
                self._looked_at = now
        elif self._looked_at is None or now - self._looked_at >= SPARK_PATTERN_SECONDS:
            self._found = _matching(connection, self._options.pattern)
            self._looked_at = now
        return self._found


def _look_up(connection: Connection, text: str) -> Destination:
    name, given = plain_name(text), given_destination(text)
    info = next((each for each in connection.destinations(name) if each.name == name), None)
    if info is None:
        raise InvalidDestination(
            f"There is no topic {name!r} to read; create it with `tocsin destinations create topic:{name} --retained`."
        )
    if given is not None and given.kind is not info.destination.kind:
        raise InvalidDestination(f"{name!r} is a {info.kind}, and the option subscribe says {text!r}.")
    if info.destination.kind is Kind.TOPIC and not info.details.get("retained"):
        raise InvalidDestination(
            f"{info.destination} is not retained: it keeps no messages to read by offset. Create it with --retained."
        )
    return info.destination


def _matching(connection: Connection, pattern: str) -> dict[str, Destination]:
    prefix = ""
    if not set("|?*{") & set(pattern):
        found = _PLAIN.match(pattern)
        prefix = found[0] if found else ""
    matches = re.compile(pattern).fullmatch
    return {
        info.name: info.destination
        for info in connection.destinations(prefix)
        if _is_replayable(info) and matches(info.name)
    }


def _is_replayable(info: DestinationInfo) -> bool:
    return info.destination.kind is Kind.TOPIC and bool(info.details.get("retained"))


def check_any(found: dict[str, Destination], options: SourceOptions) -> None:
    """A batch of nothing is more likely a mistake; a stream may wait for its topics."""
    if not found:
        raise ConfigError(f"No retained topic matches subscribePattern {options.pattern!r}.")
