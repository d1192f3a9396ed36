"""One round at the register after another: prepare, learn the newest value, propose the next.

A round belongs to one ballot. It ends when a majority has accepted, when so many refuse that no majority is
left, or when its time is over; in the last two cases a value that was proposed may still have been chosen, or
not: only the next round can tell. A voter whose file is an older copy has forgotten promises: it is told so, and its
answers count for nothing (R16).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from tocsin.cluster.group_config import NO_BALLOT, NO_CONFIG, GroupConfig, Replica, is_majority, next_ballot
from tocsin.cluster.lives import Life, Memory
from tocsin.cluster.register_events import Send
from tocsin.cluster.register_messages import Accept, Accepted, Outdated, Prepare, Promise, Refuse, RegisterMessage

RESEND_SECONDS = 0.1
"""How long a voter has for its answer before it is asked again."""


class Stage(Enum):
    IDLE = auto()
    PREPARING = auto()
    LEARNED = auto()
    """A majority has promised: `learned` is the newest value, and the caller may propose its successor."""
    PROPOSING = auto()
    CHOSEN = auto()
    FAILED = auto()


class Proposer:
    def __init__(
        self, node: int, boot: int, voters: Sequence[int], round_seconds: float, memory: Memory | None = None
    ) -> None:
        self._node, self._boot, self._round_seconds = node, boot, round_seconds
        self.memory = memory or Memory()
        self._voters = tuple(voters)
        self._highest = NO_BALLOT
        self.ballot = NO_BALLOT
        self.stage = Stage.IDLE
        self.learned: GroupConfig | None = None
        self.proposed: GroupConfig | None = None
        self.commit_hint = 0
        self.wait = 0.0
        """After FAILED: how long the lease that stood in the way lasts."""
        self._answers: dict[int, tuple[Replica, Life]] = {}
        self._promises: list[Promise] = []
        self._refused: set[int] = set()
        self._accepted_at = NO_BALLOT
        self._deadline = self._resend_at = 0.0

    def start(self, now: float) -> list[Send[RegisterMessage]]:
        self.ballot = self._highest = next_ballot(self._highest, self._node, self._boot)
        self.learned, self.proposed, self._accepted_at = None, None, NO_BALLOT
        self.commit_hint, self.wait, self._promises = 0, 0.0, []
        self._begin(Stage.PREPARING, now)
        return self._ask()

    def propose(self, config: GroupConfig, now: float) -> list[Send[RegisterMessage]]:
        assert self.stage is Stage.LEARNED
        self.proposed = config
        self._begin(Stage.PROPOSING, now)
        return self._ask()

    def stop(self) -> None:
        self.stage = Stage.IDLE

    def _begin(self, stage: Stage, now: float) -> None:
        self.stage = stage
        self._answers, self._refused = {}, set()
        self._deadline, self._resend_at = now + self._round_seconds, now + RESEND_SECONDS

    def _ask(self) -> list[Send[RegisterMessage]]:
        silent = tuple(node for node in self._voters if node not in self._answers and node not in self._refused)
        message: RegisterMessage = Prepare(self.ballot)
        if self.stage is Stage.PROPOSING and self.proposed is not None:
            message = Accept(self.ballot, self.proposed)
        return [Send(silent, message)] if silent else []

    def received(self, sender: int, message: Promise | Accepted | Refuse) -> list[Send[RegisterMessage]]:
        """Look at `stage` afterwards."""
        if isinstance(message, Refuse):
            self._highest = max(self._highest, message.promised)
        if message.ballot != self.ballot:
            return []
        if isinstance(message, Promise) and self.stage is Stage.PREPARING:
            self._promised(sender, message)
        elif isinstance(message, Accepted) and self.stage is Stage.PROPOSING:
            self._accepted(sender, message)
        elif isinstance(message, Refuse) and self.stage in (Stage.PREPARING, Stage.PROPOSING):
            self._was_refused(sender, message)
        return self._complaints()

    def _promised(self, sender: int, message: Promise) -> None:
        self._answers[sender] = message.voter, message.life
        self._promises.append(message)
        self.memory.voters.merge(message.known.voters)
        if message.config is not None and message.accepted > self._accepted_at:
            self._accepted_at, self.learned = message.accepted, message.config
        if self.learned is not None and is_majority(self.learned.voters, self._trusted()):
            self.stage = Stage.LEARNED
            self._remember(self.learned)
            self._note()

    def _remember(self, learned: GroupConfig) -> None:
        """What the voters know of members and commits; nothing of it from before a forced promotion (R13), which one of
        them may have missed. So it counts only now that a majority has told whether there was one.
        """
        self.memory.settle(learned)
        for promise in self._promises:
            if (promise.config or NO_CONFIG).unclean_epoch == learned.unclean_epoch:
                self.memory.members.merge(promise.known.members)
                self.commit_hint = max(self.commit_hint, promise.commit_hint)

    def _trusted(self) -> list[Replica]:
        """Who has answered and is no older copy, as far as is known."""
        voters = self.memory.voters
        return [replica for replica, life in self._answers.values() if voters.evidence(replica, life) is None]

    def _note(self) -> None:
        """A majority has told what it knows: who passes for no older copy now has promised this ballot."""
        for replica, life in self._answers.values():
            if self.memory.voters.evidence(replica, life) is None:
                self.memory.voters.note(replica, life.start, self.ballot.counter)

    def _complaints(self) -> list[Send[RegisterMessage]]:
        found = ((node, self.memory.voters.evidence(*answer)) for node, answer in self._answers.items())
        return [Send((node,), Outdated(evidence)) for node, evidence in found if evidence is not None]

    def _accepted(self, sender: int, message: Accepted) -> None:
        self._answers[sender] = message.voter, message.life
        assert self.learned is not None and self.proposed is not None
        answered = self._trusted()
        # When a voter is replaced both sets must agree, so that no later round can miss this value.
        if is_majority(self.learned.voters, answered) and is_majority(self.proposed.voters, answered):
            self.stage = Stage.CHOSEN

    def _was_refused(self, sender: int, message: Refuse) -> None:
        self._refused.add(sender)
        self.wait = max(self.wait, message.wait)
        if 2 * (len(self._voters) - len(self._refused)) <= len(self._voters):
            self.stage = Stage.FAILED

    def tick(self, now: float) -> list[Send[RegisterMessage]]:
        if self.stage not in (Stage.PREPARING, Stage.PROPOSING):
            return []
        if now >= self._deadline:
            self.stage = Stage.FAILED
            return []
        if now < self._resend_at:
            return []
        self._resend_at = now + RESEND_SECONDS
        return self._ask()

    def next_deadline(self) -> float | None:
        if self.stage not in (Stage.PREPARING, Stage.PROPOSING):
            return None
        return min(self._deadline, self._resend_at)
