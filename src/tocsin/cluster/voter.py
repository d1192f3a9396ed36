"""A voter of a group's register: promises, accepts, grants leases. Runs on every member and on witnesses.

It answers only when what the answer says is durable, so a crash can make it silent but never forgetful. A
voter that lost its vote file comes back with another store, which no configuration counts until it is
replaced there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TypeAlias

from tocsin.cluster import lives
from tocsin.cluster.group_config import Ballot, GroupConfig, Replica
from tocsin.cluster.lease import LeaseGrants
from tocsin.cluster.lives import Life, kept, merged
from tocsin.cluster.register_events import Received, SaveVote, Send, VoteSaved
from tocsin.cluster.register_messages import (
    Accept,
    Accepted,
    CommitSeen,
    Heartbeat,
    HeartbeatAnswer,
    Initialise,
    Outdated,
    Prepare,
    Promise,
    Refuse,
    RegisterMessage,
    Resigned,
)
from tocsin.cluster.vote import Vote
from tocsin.model.limits import VOTE_NOTES_SECONDS, VOTER_ANSWERS_MAX

VoterEvent: TypeAlias = "Received[RegisterMessage] | VoteSaved"
VoterEffect: TypeAlias = "Send[RegisterMessage] | SaveVote"
FIRST_BALLOT = Ballot(0, 0, 1)
"""Of the value that `init` writes."""


def may_promise(ballot: Ballot, promised: Ballot) -> bool:
    """A round that is repeated gets the same answer again."""
    return ballot >= promised


class Voter:
    def __init__(self, node: int, vote: Vote, lease_seconds: float, now: float, start: int = 0) -> None:
        """`vote` as it was found. When `start` is the number of a new start, `self.vote` has to be made durable before
        the voter is asked anything.
        """
        self.replica = Replica(node, vote.store)
        self.vote = replace(vote, starts=kept(vote.starts, start))
        self.life = Life(start, (self._noted(vote), *vote.starts), vote.promised.counter)
        self._known = vote.known
        """Of members and voters (R16); what is newer than in the vote comes into the file with it, or soon."""
        self._known_saved_at = now
        self.commit_hint = 0
        """The highest LSN that was committed, as far as this voter has heard since it started."""
        self._leases = LeaseGrants(lease_seconds, now)
        self._number = self._saved = 0
        self._waiting: deque[tuple[int, VoterEffect]] = deque()
        """Answers, each with the number of the vote that must be durable before it leaves."""

    def _noted(self, vote: Vote) -> int:
        """The last start of this voter that a primary is known to have noted."""
        return next((seen.start for seen in vote.known.voters if seen.replica == self.replica), 0)

    def handle(self, event: VoterEvent, now: float) -> list[VoterEffect]:
        if isinstance(event, VoteSaved):
            return self._release(event.number)
        match event.message:
            case Prepare():
                return self._prepare(event.sender, event.message, now)
            case Accept():
                return self._accept(event.sender, event.message)
            case Heartbeat():
                return self._heartbeat(event.sender, event.message, now)
            case Resigned():
                self._leases.give_back(event.sender, event.message, now)
                return []
            case CommitSeen():
                self._note_commit(event.message.epoch, event.message.lsn)
                return []
            case Initialise() if self.vote.config is None:
                return self._save(replace(self.vote, accepted=FIRST_BALLOT, config=event.message.config), None)
            case _:
                return []

    def _note_commit(self, epoch: int, lsn: int) -> None:
        """No later primary may end before it (R11), unless an operator has given it up since (R13)."""
        config = self.vote.config
        if config is None or epoch >= config.unclean_epoch:
            self.commit_hint = max(self.commit_hint, lsn)

    def is_outdated_by(self, message: Outdated) -> bool:
        """Whether it proves that this vote is an older copy, which must not be used (R16)."""
        return message.seen.replica == self.replica and lives.is_older_copy(self.life, message.seen)

    def _prepare(self, sender: int, message: Prepare, now: float) -> list[VoterEffect]:
        wait = self._leases.wait_for(sender, now)
        if wait > 0 or not may_promise(message.ballot, self.vote.promised):
            return [Send((sender,), Refuse(message.ballot, self.vote.promised, wait))]
        vote = replace(self.vote, promised=message.ballot)
        answer = Promise(
            message.ballot, self.replica, vote.accepted, vote.config, self.commit_hint, self.life, self._known
        )
        return self._save(vote, Send((sender,), answer))

    def _accept(self, sender: int, message: Accept) -> list[VoterEffect]:
        if not may_promise(message.ballot, self.vote.promised):
            return [Send((sender,), Refuse(message.ballot, self.vote.promised, 0.0))]
        before, config = self.vote.config, message.config
        if before is not None and config.unclean_epoch > before.unclean_epoch:
            # What was there is given up by an operator (R13): nobody is measured by it any more.
            self.commit_hint = min(self.commit_hint, config.unclean_lsn)
            self._known = self._known._replace(members=())
        vote = replace(self.vote, promised=message.ballot, accepted=message.ballot, config=config)
        return self._save(vote, Send((sender,), Accepted(message.ballot, self.replica, self.life)))

    def _heartbeat(self, sender: int, message: Heartbeat, now: float) -> list[VoterEffect]:
        """No promise is changed, so nothing has to be durable before the answer."""
        self._note_commit(message.epoch, message.commit)
        granted = not self._knows_later(message.epoch) and self._leases.renew(sender, message, self.replica.node, now)
        answer = HeartbeatAnswer(message.epoch, message.sent, now, granted, self.replica, self.life)
        return [Send((sender,), answer), *self._remember(message, now)]

    def _remember(self, message: Heartbeat, now: float) -> list[VoterEffect]:
        """A start that was not known before is noted at once, how far files have come now and then."""
        if self._knows_later(message.epoch):
            return []
        self._known = merged(self._known, self.vote.config, message.known, message.config)
        fresh = not self._known.starts() <= self.vote.known.starts()
        due = self._known != self.vote.known and now - self._known_saved_at >= VOTE_NOTES_SECONDS
        if not fresh and not due:
            return []
        self._known_saved_at = now
        return self._save(self.vote, None)

    def _knows_later(self, epoch: int) -> bool:
        config: GroupConfig | None = self.vote.config
        return config is not None and config.epoch > epoch

    def _save(self, vote: Vote, answer: Send[RegisterMessage] | None) -> list[VoterEffect]:
        effects: list[VoterEffect] = []
        vote = replace(vote, known=self._known)
        if self.life.start and self._noted(vote) == self.life.start:
            vote = replace(vote, starts=())
        if vote != self.vote:
            self.vote = vote
            self._number += 1
            effects.append(SaveVote(self._number, vote))
        if answer is not None:
            # A full queue means that the disk stands still; whoever asked will ask again.
            if len(self._waiting) < VOTER_ANSWERS_MAX:
                self._waiting.append((self._number, answer))
            effects.extend(self._release(self._saved))
        return effects

    def _release(self, saved: int) -> list[VoterEffect]:
        self._saved = max(self._saved, saved)
        effects = []
        while self._waiting and self._waiting[0][0] <= self._saved:
            effects.append(self._waiting.popleft()[1])
        return effects
