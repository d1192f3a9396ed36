"""What simulated client managers and groups say to each other."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.replication.messages import Reference


@dataclass(frozen=True, slots=True)
class Data:
    """A message of a producer, multicast to the whole group."""

    producer: int
    sequence: int
    reference: Reference
    data: bytes


@dataclass(frozen=True, slots=True)
class Confirm:
    """The message is stored; `lsn` 0 when it is confirmed once more."""

    epoch: int
    producer: int
    sequence: int
    lsn: int
    copies: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """Stands for everything that only the holder of the lease may send."""

    epoch: int
