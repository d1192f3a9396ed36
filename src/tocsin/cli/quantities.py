"""Sizes, durations and points in time as people write them: 10GiB, 7d, 1.5h, 2026-01-31T08:00, earliest.

Each reader raises ValueError with a sentence; `options` turns that into a usage error.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_NUMBER_AND_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")

_SECONDS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}


def read_duration(text: str) -> float:
    """Seconds; a bare number is seconds."""
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if not match or match[2].lower() not in _SECONDS:
        raise ValueError(f"{text!r} is not a duration; write for example 500ms, 30s, 15m, 12h or 7d.")
    return float(match[1]) * _SECONDS[match[2].lower()]


def read_size(text: str) -> int:
    """Bytes; a bare number is bytes, KiB and K are 1,024 bytes, KB is 1,000."""
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if not match or match[2].lower() not in _BYTES:
        raise ValueError(f"{text!r} is not a size; write for example 4096, 64KiB, 500MB or 10GiB.")
    return int(float(match[1]) * _BYTES[match[2].lower()])


def read_start(text: str, now: datetime) -> str | int | datetime:
    """Where to start in a retained topic: a word, an offset, a moment, or how long ago."""
    if text in ("earliest", "latest"):
        return text
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return now - timedelta(seconds=_ago(text))
    # A moment without a zone is meant as the user's own clock shows it.
    return moment if moment.tzinfo else moment.astimezone(UTC)


def _ago(text: str) -> float:
    try:
        return read_duration(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no place to start; write earliest, latest, an offset such as 1500, a time such as "
            "2026-01-31T08:00, or how long ago, such as 15m."
        ) from None


def show_duration(seconds: int | float) -> str:
    """As `read_duration` reads it, in the largest unit that needs no fraction."""
    thousandths = round(seconds * 1000)
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if thousandths and thousandths % length == 0:
            return f"{thousandths // length}{unit}"
    return f"{thousandths}ms"


def show_size(size: int | float) -> str:
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
