"""What the parts of one bus share: who it is, what it was told, what it has to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from tocsin.bus.events import Counters, Event
from tocsin.bus.sealing import Keys
from tocsin.bus.settings import BusSettings


@dataclass(slots=True)
class Core:
    node: int
    boot: int
    salt: int
    """Of this incarnation; nothing that was recorded before it started can name it."""
    settings: BusSettings
    keys: Keys
    random: Callable[[], float]
    """Numbers from 0 up to but without 1."""
    counters: Counters = field(default_factory=Counters)
    events: list[Event] = field(default_factory=list)
    """Taken by the owner after every call."""
    deadline: float = inf
    holding_back: bool = False
    """The owner cannot take more: no data is acknowledged."""

    def wake(self, at: float) -> None:
        if at < self.deadline:
            self.deadline = at
