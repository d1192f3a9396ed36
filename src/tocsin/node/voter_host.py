"""A voter of a group on its node: its vote file, and the way from the bus to it. A witness is this and no more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from tocsin.cluster.envelope import GroupBytes
from tocsin.cluster.envelope import decode as decode_envelope
from tocsin.cluster.group_config import GroupConfig, Replica
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
from tocsin.journal.slot_file import load_slots, save_slots
from tocsin.model.errors import ProtocolError, StorageFull
from tocsin.model.limits import VOTE_RETRY_SECONDS
from tocsin.node.outgoing import Outgoing, group_messages
from tocsin.node.workers import Workers
from tocsin.replication.codec import decode as decode_group
from tocsin.replication.credible import is_credible
from tocsin.replication.journal_work import new_store
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.ports import Buffer, Clock, Files, Random

VOTE = "vote"
ToVoter: TypeAlias = Prepare | Accept | Heartbeat | Initialise | Resigned | CommitSeen | Outdated
TO_VOTER = (Prepare, Accept, Heartbeat, Initialise, Resigned, CommitSeen, Outdated)


def read_vote(files: Files) -> Vote | None:
    """The vote on disk, or None. Whoever has none is a new voter, which no configuration counts yet."""
    try:
        return decode_vote(load_slots(files, VOTE), VOTE)
    except FileNotFoundError:
        return None


def write_vote(files: Files, vote: Vote) -> bool:
    """False when there is no room on the disk, which only the first vote needs: then the former vote stands."""
    return save_slots(files, VOTE, encode_vote(vote))


class VoterHost:
    def __init__(
        self, group: int, settings: GroupSettings, node: int, files: Files, clock: Clock, random: Random, start: int = 0
    ) -> None:
        """`start` is the number of this start of the node: it is in the file before the voter says anything.

        A new voter starts without room for its file, too: it is written with its first promise, before which the voter
        says nothing that counts.
        """
        self._group, self._node, self._files, self._clock = group, node, files, clock
        self._random, self._start, self._lease_seconds = random, start, settings.lease_seconds
        self._settings = settings
        self.older: str | None = None
        """The vote that was found was an older copy: this says how that was noticed."""
        found = read_vote(files)
        self._voter = Voter(node, found or Vote(new_store(random)), settings.lease_seconds, clock.now(), start)
        if self._voter.vote != found and not write_vote(files, self._voter.vote) and found is not None:
            raise StorageFull("No room left on the disk to note that the voter starts; free some space.")
        self._out: list[Outgoing] = []
        self._own: deque[RegisterMessage] = deque()
        self._unsaved: SaveVote | None = None
        self._saving = False
        self._retry_at = float("inf")
        self._workers: Workers | None = None
        self.malformed = 0

    def attach(self, workers: Workers, wake: Callable[[], None]) -> None:
        self._workers, self._wake = workers, wake

    @property
    def replica(self) -> Replica:
        return self._voter.replica

    @property
    def config(self) -> GroupConfig | None:
        """The newest that this voter has accepted; whether it holds only a majority can tell."""
        return self._voter.vote.config

    # ---- events

    def received(self, sender: int, boot: int, payload: Buffer) -> None:
        """A message of the bus: what is for no voter is passed over."""
        try:
            envelope = decode_envelope(payload)
            message = decode_group(envelope.parts[0]) if isinstance(envelope, GroupBytes) else None
        except ProtocolError:
            self.malformed += 1
            return
        if isinstance(message, TO_VOTER):
            if is_credible(self._settings, sender, message):
                self.asked(sender, message)
            else:
                self.malformed += 1

    @property
    def vote(self) -> Vote:
        return self._voter.vote

    def asked(self, sender: int, message: ToVoter) -> None:
        if not isinstance(message, Outdated):
            self._handle(Received(sender, message))
        elif self._voter.is_outdated_by(message):
            self._begin_anew(message)

    def _begin_anew(self, message: Outdated) -> None:
        """The vote is an older copy, which has forgotten promises (R16). Another voter takes its place; its file is
        written with its first promise, before which it says nothing that counts.
        """
        self.older = (
            f"The vote is an older copy: it ended with start {max(self._voter.life.before)} and ballot"
            f" {self._voter.life.position}, and the group has seen start {message.seen.start} and ballot"
            f" {message.seen.position} of it. It counts for nothing; the node joins as a new voter."
        )
        self._unsaved = None
        vote = Vote(new_store(self._random))
        self._voter = Voter(self._node, vote, self._lease_seconds, self._clock.now(), self._start)

    def _handle(self, event: VoterEvent) -> None:
        for effect in self._voter.handle(event, self._clock.now()):
            if isinstance(effect, SaveVote):
                self._unsaved = effect
            else:
                self._send(effect)

    def _send(self, effect: Send[RegisterMessage]) -> None:
        self._out += group_messages(self._group, self._node, effect)
        if self._node in effect.receivers:
            self._own.append(effect.message)

    def tick(self) -> None:
        """A vote that found no room on the disk may find some now."""
        if self._clock.now() >= self._retry_at:
            self._retry_at = float("inf")

    def next_deadline(self) -> float:
        return self._retry_at

    # ---- work

    def pump(self) -> bool:
        """Saves the newest vote; those before it that are not saved yet are saved with it."""
        assert self._workers is not None
        if self._unsaved is None or self._saving or self._retry_at < float("inf"):
            return False
        save, self._unsaved, self._saving = self._unsaved, None, True
        self._workers.vote(lambda: write_vote(self._files, save.vote), lambda written: self._saved(save, written))
        return False

    def _saved(self, save: SaveVote, written: bool) -> None:
        self._saving = False
        if save.vote.store != self._voter.replica.store:
            # Of the voter that was here before.
            pass
        elif written:
            self._handle(VoteSaved(save.number))
        else:
            # A later one stands for it, too.
            self._unsaved = self._unsaved or save
            self._retry_at = self._clock.now() + VOTE_RETRY_SECONDS
        self._wake()

    def take_out(self) -> list[Outgoing]:
        out, self._out = self._out, []
        return out

    def take_own(self) -> list[RegisterMessage]:
        """Answers for the member on the same node."""
        own, self._own = list(self._own), deque()
        return own
