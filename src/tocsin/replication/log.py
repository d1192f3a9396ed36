"""The log of a group as its machines see it: a port. What is appended counts at once and is durable later.

Whoever runs a member does the work behind the port: it makes operations durable in the order in which they
were given, then sends the member a LogProgress event. Reading goes through the ReadLog effect, because it may
need the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tocsin.runtime.ports import Buffer

NOOP = 255
"""Kind of the record that begins an epoch; it has no content and means nothing to whoever applies records."""
FILL_ANEW = "Move the group's folder away, and the other members fill it; never put an older copy of it back."
"""What an operator does about a log that can't be used."""


class Entry(NamedTuple):
    """A record with the epoch in which it was ordered."""

    epoch: int
    kind: int
    parts: Sequence[Buffer]

    def size(self) -> int:
        return sum(map(len, self.parts))


class GroupLog(Protocol):
    """See the module. LSNs are dense from `base_lsn` + 1 to `last_lsn`; what is below is in a snapshot."""

    @property
    def store(self) -> int:
        """Made with the log: another number after the disk was lost, or after `renew`."""

    @property
    def starts_before(self) -> tuple[int, ...]:
        """Starts before this one, as the files knew them when they were opened: see cluster.lives."""

    @property
    def base_lsn(self) -> int: ...

    @property
    def last_lsn(self) -> int: ...

    @property
    def durable_lsn(self) -> int:
        """All records up to here survive a crash. A cut lowers it."""

    @property
    def promised(self) -> int:
        """The epoch that was promised; no record is of a later one."""

    @property
    def durable_promise(self) -> int: ...

    def epoch_at(self, lsn: int) -> int:
        """From the base, whose epoch is known too, to the last record."""

    def run_start(self, lsn: int) -> int:
        """The first LSN of those before `lsn` that have its epoch."""

    def end_of_epoch(self, epoch: int) -> int:
        """The last LSN whose epoch is not above `epoch`."""

    def append(self, entry: Entry) -> int:
        """Its epoch must have been promised before, so that the promise is durable before the record."""

    def cut(self, last_lsn: int) -> None:
        """Drop everything behind `last_lsn`: a suffix that was never committed."""

    def promise(self, epoch: int) -> None:
        """Rises only."""

    def noted(self, start: int) -> None:
        """The group has noted this start: it stands for those before it."""

    def renew(self) -> None:
        """The files are an older copy: become another store, which nobody counts yet. `store` is that when it is
        durable.
        """
