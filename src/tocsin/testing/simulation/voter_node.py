"""A simulated node with a voter: a witness, and what every member is as well."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from tocsin.cluster.register_events import Received, SaveVote, Send, VoteSaved
from tocsin.cluster.register_messages import (
    Accept,
    CommitSeen,
    Heartbeat,
    Initialise,
    Outdated,
    Prepare,
    RegisterMessage,
    Resigned,
)
from tocsin.cluster.vote import Vote, decode_vote, encode_vote
from tocsin.cluster.voter import Voter, VoterEvent
from tocsin.replication.messages import GroupMessage
from tocsin.testing.simulation.clock import DriftingClock

if TYPE_CHECKING:
    from tocsin.testing.simulation.world import World

VOTER_MESSAGES = (Prepare, Accept, Heartbeat, Initialise, Resigned, CommitSeen, Outdated)


class SimulatedNode(ABC):
    """Something with a number, a clock and lives. What was scheduled in one life does not happen in the next."""

    def __init__(self, world: World, node: int) -> None:
        self.world, self.node = world, node
        self.clock = DriftingClock(0.0, 1.0)
        self.life = self.boot = 0
        self.up = False
        self.paused_until = 0.0

    def now(self) -> float:
        return self.clock.local(self.world.time)

    def start(self) -> None:
        self.up = True
        self.life += 1
        self.boot += 1

    def stop(self) -> None:
        self.up = False
        self.life += 1

    @abstractmethod
    def receive(self, sender: int, message: object) -> None:
        """A message has come over the network."""

    def send(self, effect: Send[GroupMessage]) -> None:
        message = self.world.through_codec(effect.message)
        if isinstance(message, Prepare | Accept):
            self.world.round_begins(self.node, message)
        for receiver in effect.receivers:
            self.world.network.send(self.node, receiver, message)


class VoterNode(SimulatedNode):
    def __init__(self, world: World, node: int, store: int) -> None:
        super().__init__(world, node)
        self.vote_file = encode_vote(Vote(store))
        self._unsaved: list[Vote] = []
        self.vote_seconds = 0.001
        self.votes_take = 0.0
        """How long the file takes at most, beside the usual."""

    def start(self) -> None:
        super().start()
        self.voter = Voter(self.node, self.saved_vote(), self.world.settings.lease_seconds, self.now(), self.boot)
        self.vote_file = encode_vote(self.voter.vote)

    def stop(self) -> None:
        super().stop()
        # Of the votes that were being written, some may have arrived.
        arrived = self.world.random.randint(0, len(self._unsaved))
        if arrived:
            self._keep(self._unsaved[arrived - 1])
        self._unsaved = []

    def lose_disk(self, store: int) -> None:
        self.vote_file = encode_vote(Vote(store))

    def saved_vote(self) -> Vote:
        """What the disk says."""
        return decode_vote(self.vote_file, "vote")

    def _keep(self, vote: Vote) -> None:
        self.vote_file = encode_vote(vote)
        self.world.checkers.voted(self, vote)

    def receive(self, sender: int, message: object) -> None:
        if isinstance(message, Outdated):
            if self.voter.is_outdated_by(message):
                self._begin_anew()
        elif isinstance(message, VOTER_MESSAGES):
            self._vote(Received(sender, message))

    def _begin_anew(self) -> None:
        """The vote is an older copy: another voter takes its place, and what was being written is of no use."""
        self._unsaved = []
        vote = Vote(self.world.new_store())
        self.voter = Voter(self.node, vote, self.world.settings.lease_seconds, self.now(), self.boot)

    def initialise(self, message: RegisterMessage) -> None:
        for effect in self.voter.handle(Received(0, message), self.now()):
            if isinstance(effect, SaveVote):
                self._keep(effect.vote)
                self.voter.handle(VoteSaved(effect.number), self.now())

    def _vote(self, event: VoterEvent) -> None:
        for effect in self.voter.handle(event, self.now()):
            if isinstance(effect, SaveVote):
                self._unsaved.append(effect.vote)
                self.world.after(self._vote_delay(), self, self._saved, effect)
            else:
                self.send(effect)

    def _vote_delay(self) -> float:
        chance = self.world.random.random
        return self.vote_seconds * (0.5 + chance()) + (self.votes_take * chance() if self.votes_take else 0.0)

    def _saved(self, effect: SaveVote) -> None:
        # Saves may end in any order; an earlier one is of no interest any more.
        if effect.vote in self._unsaved:
            del self._unsaved[: self._unsaved.index(effect.vote) + 1]
            self._keep(effect.vote)
            self._vote(VoteSaved(effect.number))
