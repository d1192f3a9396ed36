"""A network that loses datagrams, for benchmarks and tests: real ones lose too few when somebody looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tocsin.runtime.datagrams import Burst, Place, Received, Transport


@dataclass(slots=True)
class LossyTransport:
    """Loses a share of the datagrams that come, each by its own chance."""

    inner: Transport
    loss: float
    random: Random

    def start(self, received: Received, writable: Callable[[], None]) -> None:
        def receive(channel: int, data: bytes, segment: int, source: Place) -> None:
            for start in range(0, len(data), segment):
                if self.random.random() >= self.loss:
                    received(channel, data[start : start + segment], segment, source)

        self.inner.start(receive, writable)

    def send(self, burst: Burst) -> bool:
        return self.inner.send(burst)

    def close(self) -> None:
        self.inner.close()
