"""Which datagram counters of one flow were seen: each passes once, and none that is far behind the newest."""

from __future__ import annotations

from tocsin.model.limits import BUS_REPLAY_PACKETS

_MASK = (1 << BUS_REPLAY_PACKETS) - 1


class ReplayWindow:
    """A bit per counter, bit 0 for the newest. `fresh` only looks; `note` is for what proved authentic."""

    __slots__ = ("_newest", "_seen")

    def __init__(self) -> None:
        self._newest = -1
        self._seen = 0

    def fresh(self, counter: int) -> bool:
        age = self._newest - counter
        return age < 0 or (age < BUS_REPLAY_PACKETS and not self._seen >> age & 1)

    def note(self, counter: int) -> None:
        step = counter - self._newest
        if step <= 0:
            self._seen |= 1 << -step
            return
        # A long jump would only shift ones out; the shift itself must not grow with it.
        self._seen = ((self._seen << step | 1) & _MASK) if step < BUS_REPLAY_PACKETS else 1
        self._newest = counter
