"""What clients have brought in and is not answered yet: one account for each connection, one sum for all.

Every frame that becomes a command is charged to its connection, as much as it takes in memory, and released with its
answer, wherever it waits meanwhile. A connection whose account is full is not read for a while. When all together hold
too much, those are not read that have more than an equal share of it; the others do not notice.
"""

from __future__ import annotations

from tocsin.model.errors import ResourceExhausted
from tocsin.model.traffic_limits import (
    INBOUND_ALL_BYTES_LAST,
    INBOUND_ALL_BYTES_MAX,
    INBOUND_BYTES_MAX,
    INBOUND_COMMANDS_MAX,
)


class Accounts:
    __slots__ = ("bytes", "holders", "pauses")

    def __init__(self) -> None:
        # Of all accounts, with the frames that are not complete yet; and how many accounts are not empty.
        self.bytes = 0
        self.holders = 0
        # Transports that are to be read no more (True), or again.
        self.pauses: dict[int, bool] = {}

    @property
    def share(self) -> int:
        """What one may hold when all hold too much."""
        return INBOUND_ALL_BYTES_MAX // max(1, self.holders)

    def take_pauses(self) -> dict[int, bool]:
        pauses, self.pauses = self.pauses, {}
        return pauses


class Account:
    """Of one client: it stays the same when the client comes back on another transport."""

    __slots__ = ("_accounts", "_begun", "_transport", "bytes", "commands", "consumers", "paused")

    def __init__(self, accounts: Accounts, transport: int = 0) -> None:
        self._accounts = accounts
        # The number of the transport that the client is on; 0 while it is away.
        self._transport = transport
        # Bytes of a frame that is not complete yet. They are not counted here: who is not read can't complete it.
        self._begun = 0
        self.bytes = 0
        self.commands = 0
        # Open consumers, which share what may be on the way to them.
        self.consumers = 0
        self.paused = False

    def charge(self, size: int) -> None:
        """A command has come in."""
        accounts = self._accounts
        if not self.commands:
            accounts.holders += 1
        self.commands += 1
        self.bytes += size
        accounts.bytes += size

    def release(self, size: int) -> None:
        """A command is answered, or nobody waits for its answer any more."""
        accounts = self._accounts
        self.commands -= 1
        self.bytes -= size
        accounts.bytes -= size
        if not self.commands:
            accounts.holders -= 1
        if self.paused:
            self.look_again()

    def received(self, begun: int) -> None:
        """All of a chunk is charged, but for a frame that has begun; raises when there is no memory for it."""
        accounts = self._accounts
        if begun != self._begun:
            accounts.bytes += begun - self._begun
            self._begun = begun
        if self.bytes > INBOUND_BYTES_MAX or self.commands > INBOUND_COMMANDS_MAX:
            self._pause(True)
        elif accounts.bytes > INBOUND_ALL_BYTES_MAX:
            if accounts.bytes > INBOUND_ALL_BYTES_LAST and self.bytes + begun > accounts.share:
                raise ResourceExhausted("The server has no memory for what its clients send at once; try again later.")
            if self.bytes > accounts.share:
                self._pause(True)

    def look_again(self) -> None:
        """Lets a client be read again that has not so much under way any more."""
        accounts = self._accounts
        if 2 * self.bytes > INBOUND_BYTES_MAX or 2 * self.commands > INBOUND_COMMANDS_MAX:
            return
        if accounts.bytes > INBOUND_ALL_BYTES_MAX and 2 * self.bytes > accounts.share:
            return
        self._pause(False)

    def _pause(self, paused: bool) -> None:
        if paused is not self.paused and self._transport:
            self.paused = paused
            self._accounts.pauses[self._transport] = paused

    def moved(self, transport: int) -> None:
        """The client is on another transport now, which is read; 0: it is away."""
        self._accounts.pauses.pop(self._transport, None)
        self._accounts.bytes -= self._begun
        self._begun = 0
        self._transport = transport
        self.paused = False
