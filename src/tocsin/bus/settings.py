"""What a bus can be told about its network; the usual values are those of a local network."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.bus.receive_window import NakTiming
from tocsin.bus.send_window import WindowSize
from tocsin.model.limits import (
    BUS_ACKNOWLEDGE_SECONDS,
    BUS_CONTROL_WINDOW_BYTES,
    BUS_CONTROL_WINDOW_PACKETS,
    BUS_DOWN_SECONDS,
    BUS_HEARTBEAT_SECONDS,
    BUS_HISTORY_BYTES,
    BUS_NAK_RETRY_SECONDS,
    BUS_NAK_RETRY_SECONDS_MAX,
    BUS_NAK_RETRY_SECONDS_MIN,
    BUS_NAK_SECONDS,
    BUS_PROMPT_SECONDS,
    BUS_RESEND_BYTES_PER_SECOND,
    BUS_RESEND_REPEAT_SECONDS,
    BUS_SUSPECT_SECONDS,
    BUS_WINDOW_BYTES,
    BUS_WINDOW_BYTES_MIN,
    BUS_WINDOW_PACKETS,
)

_NAK = NakTiming(BUS_NAK_SECONDS, BUS_NAK_RETRY_SECONDS, BUS_NAK_RETRY_SECONDS_MIN, BUS_NAK_RETRY_SECONDS_MAX)
_DATA = WindowSize(BUS_WINDOW_PACKETS, BUS_WINDOW_BYTES, BUS_HISTORY_BYTES, overwrites=False)
_CONTROL = WindowSize(BUS_CONTROL_WINDOW_PACKETS, BUS_CONTROL_WINDOW_BYTES, BUS_CONTROL_WINDOW_BYTES, overwrites=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings:
    heartbeat_seconds: float = BUS_HEARTBEAT_SECONDS
    suspect_seconds: float = BUS_SUSPECT_SECONDS
    down_seconds: float = BUS_DOWN_SECONDS
    prompt_seconds: float = BUS_PROMPT_SECONDS
    acknowledge_seconds: float = BUS_ACKNOWLEDGE_SECONDS
    nak: NakTiming = _NAK
    resend_repeat_seconds: float = BUS_RESEND_REPEAT_SECONDS
    resend_bytes_per_second: int = BUS_RESEND_BYTES_PER_SECOND
    window_bytes_min: int = BUS_WINDOW_BYTES_MIN
    data: WindowSize = _DATA
    control: WindowSize = _CONTROL
