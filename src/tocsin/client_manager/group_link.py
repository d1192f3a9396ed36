"""The way of a client manager to one group.

A link is one run of commands to one primary, numbered from 0 without a gap. Whenever the other end may have missed
something (another primary, an Unlinked, answers that were lost) a new link begins, and everything that the client
manager holds for the group is said again. The first message of a link only asks whether somebody is there; the rest
follows with the first answer, so that megabytes are not sent to one who does not listen.

           heartbeat             first answer
    DOWN -------------> ASKING ---------------> UP      DOWN again: the primary is gone, or the link is broken;
      ^                    |                     |      a higher epoch begins a new link from anywhere
      +--------------------+---------------------+
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from tocsin.bus.datagram import Stream
from tocsin.bus.membership import MemberState
from tocsin.cluster.command_codec import pack_command
from tocsin.cluster.commands import Command, GrantCredit
from tocsin.cluster.envelope import Commands, encode_commands
from tocsin.cluster.packing import Packer
from tocsin.cluster.waiting_grants import WaitingGrants
from tocsin.model.errors import MessageTooLarge
from tocsin.model.limits import (
    COMMAND_BYTES_MAX,
    COMMANDS_BYTES_MAX,
    COMMANDS_PER_MESSAGE_MAX,
    LINK_ANSWER_SECONDS,
    LINK_ANSWER_SECONDS_MAX,
    RELINK_SECONDS_MIN,
)
from tocsin.model.values import Bytes
from tocsin.replication.gate import EpochGate


class LinkPhase(Enum):
    DOWN = "nobody to talk to"
    ASKING = "the first answer of a new link"
    UP = "commands go out"


@dataclass(slots=True)
class Outgoing:
    """A message to all members of a group."""

    group: int
    message: Commands
    packed: list[list[Bytes]]
    """The bytes of each command."""
    stream: Stream = Stream.DATA

    def parts(self) -> list[Bytes]:
        return encode_commands(self.message, self.packed)


@dataclass(slots=True)
class _Packed:
    command: Command
    parts: list[Bytes]
    size: int


def _pack(command: Command) -> _Packed:
    """Its bytes, before anything counts on its being sent: what can't be packed is refused to whoever sent it."""
    packer = Packer()
    pack_command(packer, command)
    size = sum(map(len, packer.parts))
    if size > COMMAND_BYTES_MAX:
        raise MessageTooLarge(f"A request has {size} bytes between managers; {COMMAND_BYTES_MAX} is the most.")
    return _Packed(command, packer.parts, size)


class GroupLink:
    """Decides when a new link begins; its owner says what is to be said on it."""

    def __init__(self, group: int, gate: EpochGate) -> None:
        self.group = group
        self.epoch = 0
        self.primary = 0
        self.boot = 0
        self.link = 0
        self.phase = LinkPhase.DOWN
        self._gate = gate
        self._number = 0
        self._waiting: deque[_Packed] = deque()
        self._grants = WaitingGrants()
        self._unsent: deque[Outgoing] = deque()
        self._blocked = False
        # When a link is to be begun; None while there is no need, or no primary.
        self._begin_at: float | None = None
        self._begun_at = 0.0
        self._patience = LINK_ANSWER_SECONDS

    # ---- what is heard

    def heartbeat(self, epoch: int, sender: int, boot: int, now: float) -> None:
        """The primary of an epoch lives."""
        if not self._gate.passes(self.group, epoch):
            return
        if (epoch, sender, boot) != (self.epoch, self.primary, self.boot):
            self.epoch, self.primary, self.boot = epoch, sender, boot
            self._drop(now)
        elif self.phase is LinkPhase.DOWN and self._begin_at is None:
            self._begin_at = now

    def unlinked(self, epoch: int, link: int, now: float) -> None:
        """The primary lacks something of a link: a former one is of no interest any more."""
        if self._gate.passes(self.group, epoch) and epoch == self.epoch and link in (self.link, 0):
            self.broken(now)

    def broken(self, now: float) -> None:
        """Something was lost on the way: the link is of no use any more."""
        if self.phase is not LinkPhase.DOWN:
            self._drop(max(now, self._begun_at + RELINK_SECONDS_MIN))

    def member_changed(self, node: int, boot: int, state: MemberState) -> None:
        """A primary that is gone says so by its next heartbeat when it is back; nothing is sent until then."""
        if node == self.primary and (boot > self.boot or (boot == self.boot and state is MemberState.DOWN)):
            self._drop(None)

    def takes(self, epoch: int, link: int, sender: int) -> bool:
        """Whether answers are of the link of now (R10: and not of an epoch that is over)."""
        if not self._gate.passes(self.group, epoch):
            return False
        return (epoch, link, sender) == (self.epoch, self.link, self.primary) and self.phase is not LinkPhase.DOWN

    # ---- links

    def _drop(self, begin_at: float | None) -> None:
        self.phase = LinkPhase.DOWN
        self._begin_at = begin_at
        self._waiting.clear()
        self._grants.clear()
        self._unsent.clear()

    def is_due(self, now: float) -> bool:
        """Whether a new link is to be begun now."""
        if self.phase is LinkPhase.ASKING and now >= self._begun_at + self._patience:
            return True
        return self._begin_at is not None and now >= self._begin_at

    def begin(self, asks: Command, now: float) -> None:
        """Begins a new link with one command that is answered at once."""
        in_vain = self.phase is LinkPhase.ASKING
        self._patience = min(2 * self._patience, LINK_ANSWER_SECONDS_MAX) if in_vain else LINK_ANSWER_SECONDS
        self._drop(None)
        self.link += 1
        self._number = 0
        self._begun_at = now
        self.phase = LinkPhase.ASKING
        self._unsent.append(self._message([_pack(asks)]))

    def answered(self) -> bool:
        """An answer of this link has come; True for the first one: now everything is to be said."""
        first = self.phase is LinkPhase.ASKING
        self.phase = LinkPhase.UP
        return first

    def next_deadline(self) -> float | None:
        if self.phase is LinkPhase.ASKING:
            return self._begun_at + self._patience
        return self._begin_at

    # ---- what is sent

    def send(self, command: Command) -> bool:
        """Queues a command. While the link is not up it is dropped: whoever sent it says it again when it is. One that
        can't cross the bus is refused at once, whether the link is up or not.

        Clients are charged for what waits here (`accounts`), but for credit, of which each consumer has one at most.
        """
        packed = _pack(command)
        if self.phase is not LinkPhase.UP:
            return False
        if not self._grants.merges(command):
            self._waiting.append(packed)
        return True

    def blocked(self, unsent: list[Outgoing]) -> None:
        """The bus had no room for these: they come first when it has."""
        self._blocked = True
        self._unsent.extendleft(each for each in reversed(unsent) if each.message.link == self.link)

    def room(self) -> None:
        self._blocked = False

    def take_out(self) -> list[Outgoing]:
        if self._blocked or not (self._unsent or self._waiting):
            return []
        while self._waiting:
            self._unsent.append(self._message(self._batch()))
        self._grants.clear()
        out = list(self._unsent)
        self._unsent.clear()
        return out

    def _batch(self) -> list[_Packed]:
        waiting = self._waiting
        batch: list[_Packed] = []
        size = 0
        while waiting and len(batch) < COMMANDS_PER_MESSAGE_MAX:
            step = waiting[0].size
            if batch and size + step > COMMANDS_BYTES_MAX:
                break
            batch.append(waiting.popleft())
            size += step
        return batch

    def _message(self, batch: list[_Packed]) -> Outgoing:
        message = Commands(self.epoch, self.link, self._number, [each.command for each in batch])
        self._number += 1
        # Credit may have grown while it waited.
        packed = [_pack(each.command) if isinstance(each.command, GrantCredit) else each for each in batch]
        return Outgoing(self.group, message, [each.parts for each in packed])
