"""Where a read begins and ends: everywhere the same, per topic by offset, or by time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tocsin.model.errors import ConfigError
from tocsin.spark.option_values import OptionValues

EARLIEST_NUMBER, LATEST_NUMBER = -2, -1
"""Kafka's numbers for the two ends, in JSON."""


@dataclass(frozen=True, slots=True)
class Where:
    """One of: a word for all; offsets by name; a time for all; times by name. Times in ms since 1970."""

    word: str = ""
    offsets: tuple[tuple[str, int], ...] = ()
    time: int | None = None
    times: tuple[tuple[str, int], ...] = ()
    identities: tuple[tuple[str, str], ...] = ()
    """Which topics the offsets are of, where that was said: by name, as `connection.offsets` tells it."""

    def identity_of(self, name: str) -> str | None:
        return dict(self.identities).get(name)

    def offset_of(self, name: str) -> int | None:
        return dict(self.offsets).get(name)

    def time_of(self, name: str) -> int | None:
        return self.time if self.time is not None else dict(self.times).get(name)

    def names(self) -> set[str]:
        return {name for name, _ in (*self.offsets, *self.times)}


EARLIEST = Where("earliest")
LATEST = Where("latest")


def read_where(values: OptionValues, side: str, default: Where) -> Where:
    """`side` is starting or ending. As with Kafka, a time for all goes first, then times, then offsets."""
    if (time := values.text(f"{side}Timestamp")) is not None:
        return Where(time=_time(f"{side}Timestamp", time))
    option = f"{side}OffsetsByTimestamp"
    if (text := values.text(option)) is not None:
        return Where(times=tuple((name, _time(option, each)) for name, each in _by_name(option, text)))
    option = f"{side}Offsets"
    offsets = values.text(option)
    if offsets is None:
        return default
    word = offsets.strip().lower()
    if word in (EARLIEST.word, LATEST.word):
        return Where(word)
    found = tuple((name, _offset(option, name, each)) for name, each in _by_name(option, offsets))
    return Where(offsets=found, identities=_identities(offsets))


def _by_name(option: str, text: str) -> list[tuple[str, Any]]:
    """{"prices": 23}, or as Kafka has it with its partitions, of which there is one: {"prices": {"0": 23}}."""
    expected = f'The option {option} is earliest, latest or JSON such as {{"prices": {{"0": 23}}}}'
    if "ByTimestamp" in option:
        expected = f'The option {option} is JSON such as {{"prices": {{"0": 1794700800000}}}}'
    try:
        found = json.loads(text)
    except ValueError:
        raise ConfigError(f"{expected}, not {text!r}.") from None
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"{expected}, not {text!r}.")
    pairs: list[tuple[str, Any]] = []
    for name, value in found.items():
        if isinstance(value, dict):
            if set(value) - {"id"} != {"0"}:
                raise ConfigError(f"{expected}; {name} has the one partition 0.")
            value = value["0"]
        pairs.append((name.removeprefix("topic:"), value))
    return sorted(pairs)


def _identities(text: str) -> tuple[tuple[str, str], ...]:
    """As a checkpoint has it: {"prices": {"0": 23, "id": "..."}}."""
    found = json.loads(text).items()
    return tuple(
        (name.removeprefix("topic:"), str(at["id"])) for name, at in found if isinstance(at, dict) and "id" in at
    )


def _offset(option: str, name: str, value: Any) -> int:
    if type(value) is not int or value < EARLIEST_NUMBER:
        raise ConfigError(
            f"The option {option} has {value!r} for {name}; an offset is a whole number, "
            f"{EARLIEST_NUMBER} the earliest, {LATEST_NUMBER} the latest."
        )
    return value


def _time(option: str, value: Any) -> int:
    """Milliseconds since 1970, as with Kafka, or a date and time with its zone."""
    if type(value) is int or (isinstance(value, str) and value.strip().isdigit()):
        return int(value)
    try:
        found = datetime.fromisoformat(str(value).strip())
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ConfigError(
            f"The option {option} has {value!r}; write milliseconds since 1970, or a time with its zone such as "
            "2026-11-15T08:00:00+00:00."
        )
    return round(found.astimezone(UTC).timestamp() * 1000)
