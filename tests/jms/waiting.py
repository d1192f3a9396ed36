"""Waiting in tests: long for what must come (it ends early), briefly for what must not."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import tocsin
from tocsin.client.sync_line import Line

PATIENCE = 15.0
"""Seconds for what must happen; only a failing test ever waits that long."""

SILENCE = 0.15
"""Seconds during which nothing may come. Where order allows, tests send a marker instead and need no silence."""


def take(consumer: tocsin.Consumer) -> tocsin.Message:
    """The next message, which must come."""
    message = consumer.receive(timeout=PATIENCE)
    assert message is not None, "no message came"
    return message


def take_bodies(consumer: tocsin.Consumer, count: int) -> list[object]:
    """The bodies of the next messages, which must come."""
    return [take(consumer).body for _ in range(count)]


def is_silent(consumer: tocsin.Consumer, seconds: float = SILENCE) -> bool:
    return consumer.receive(timeout=seconds) is None


def until(condition: Callable[[], bool], what: str) -> None:
    """Returns when the condition holds; it must come to hold."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE} s in vain until {what}"
        time.sleep(0.005)


def until_it_waits(thread: threading.Thread) -> None:
    """Returns when the thread waits for the server inside a call of the client."""

    def waits() -> bool:
        frame = sys._current_frames().get(thread.ident or 0)
        while frame is not None and frame.f_code is not Line.wait.__code__:
            frame = frame.f_back
        return frame is not None

    until(waits, "the thread waits in the client")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def until_clock(moment_ms: int) -> None:
    """Returns when the wall clock has passed the moment, which the test itself has set."""
    while (left := moment_ms - now_ms()) >= 0:
        time.sleep((left + 1) / 1_000)
