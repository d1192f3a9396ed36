"""A simulated disk that tells when a vote on it has become durable: checkers count votes as voters do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tocsin.cluster.vote import Vote, decode_vote
from tocsin.journal.slot_file import read_slots
from tocsin.testing.disk import SimulatedDisk

VOTE = "vote"


class VoteDisk(SimulatedDisk):
    def __init__(self, voted: Callable[[Vote], None]) -> None:
        super().__init__()
        self._voted = voted
        self._renamed = False

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self._renamed |= new == VOTE

    def sync_directory(self, folder: str) -> None:
        super().sync_directory(folder)
        if self._renamed and not folder:
            self._renamed = False
            self.tell()

    def synced(self, name: str) -> None:
        if name == VOTE:
            self.tell()

    def tell(self) -> None:
        """What the disk says now, if there is a vote on it."""
        if VOTE in self.list(""):
            self._voted(decode_vote(read_slots(self, VOTE), VOTE))

    def after_power_loss(self, random: Random) -> VoteDisk:
        disk = VoteDisk(self._voted)
        disk._root = self._root.after_crash(random)
        return disk
