"""Errors that reach the event loop itself: those of one connection end it, any other stops the node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tocsin.model.faults import FATAL, Faults

log = logging.getLogger("tocsin")


class LoopFaults:
    """The loop's exception handler. `give_up` stops the node.

    What a peer sends may raise in the loop's own code, in its TLS for instance: the loop says then whose transport or
    protocol it was. Without either it was a turn of ours of which half was done, so stopping is safer than going on.
    """

    __slots__ = ("_faults", "_give_up", "_last")

    def __init__(self, faults: Faults, give_up: Callable[[BaseException], None]) -> None:
        self._faults = faults
        self._give_up = give_up
        # A handshake that fails is told of by the loop, and again by whoever waits for it.
        self._last: BaseException | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error, message = context.get("exception"), context.get("message")
        line = context.get("transport") or context.get("protocol")
        if line is not None and isinstance(error, Exception) and not isinstance(error, FATAL):
            # A protocol of the loop's own has no such method: what it had is closed already.
            getattr(line, "abort", bool)()
            if error is not self._last:
                self._last = error
                self._faults.note("driving a connection", error)
            return
        log.error("An error that should not happen: %s", message, exc_info=error)
        if error is not None and not isinstance(error, OSError):
            self._give_up(error)
