"""Sizes, durations and starts as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tocsin.cli.quantities import read_duration, read_size, read_start, show_duration, show_size

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("5", 5),
        ("500ms", 0.5),
        ("30s", 30),
        ("15m", 900),
        ("1.5h", 5400),
        ("7d", 604800),
        ("2 W", 1209600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("64KiB", 65536),
        ("64k", 65536),
        ("500MB", 500_000_000),
        ("10GiB", 10 * 2**30),
        ("1.5 m", 1572864),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "soon", "-5", "5 parsecs", "1e3", "7dd"])
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write for example"):
        read_duration(text)
    with pytest.raises(ValueError, match="write for example"):
        read_size(text)


def test_starts() -> None:
    assert read_start("earliest", NOW) == "earliest"
    assert read_start("latest", NOW) == "latest"
    assert read_start("1500", NOW) == 1500
    assert read_start("15m", NOW) == NOW - timedelta(minutes=15)
    assert read_start("2026-01-30T07:00+02:00", NOW) == datetime(2026, 1, 30, 5, 0, tzinfo=UTC)


def test_a_start_without_a_zone_is_the_users_own_time() -> None:
    start = read_start("2026-01-30T07:00", NOW)
    assert isinstance(start, datetime)
    assert start == datetime(2026, 1, 30, 7, 0).astimezone()


def test_a_start_that_means_nothing_lists_what_would() -> None:
    with pytest.raises(ValueError, match="earliest, latest, an offset"):
        read_start("yesterday", NOW)


@pytest.mark.parametrize("text", ["500ms", "1500ms", "30s", "90s", "15m", "36h", "7d", "14d", "0ms"])
def test_durations_are_shown_as_they_are_read(text: str) -> None:
    assert show_duration(read_duration(text)) == text


def test_sizes_are_shown_in_the_unit_that_fits() -> None:
    assert show_size(17) == "17 B"
    assert show_size(1536) == "1.5 KiB"
    assert show_size(3 * 2**40) == "3.0 TiB"
    assert show_size(5 * 2**50) == "5120.0 TiB"
