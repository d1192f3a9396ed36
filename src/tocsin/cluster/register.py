"""The register of a group: one rewritable value on a majority of voters (CASPaxos), changed by compare and set.

    group_config       the value
    register_messages  what is said
    vote, voter        those who keep it
    proposer           one round

`RegisterChange` is the other half of compare and set: it reads the value, applies a function to it, proposes
what comes out, and tries again, later and later, until the outcome is known. The function is applied to every
value that is read, so it must check itself that the value is what it expects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tocsin.cluster.group_config import GroupConfig
from tocsin.cluster.lives import Memory
from tocsin.cluster.proposer import Proposer, Stage
from tocsin.cluster.register_events import Send
from tocsin.cluster.register_messages import Accepted, Initialise, Promise, Refuse, RegisterMessage

BACK_OFF_SECONDS_FIRST = 0.05
BACK_OFF_SECONDS_MAX = 1.0


class BackOff:
    """Pauses that double, each drawn between half and all of its length, so that two rivals part."""

    __slots__ = ("_chance", "_pause")

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._pause = BACK_OFF_SECONDS_FIRST

    def next(self) -> float:
        pause, self._pause = self._pause, min(2 * self._pause, BACK_OFF_SECONDS_MAX)
        return pause * (0.5 + 0.5 * self._chance())

    def reset(self) -> None:
        self._pause = BACK_OFF_SECONDS_FIRST


class RegisterChange:
    """Changes the value, one change at a time. `outcome` is the value that was chosen, or, when the function
    gave None, the value that was found; None while nothing is known.
    """

    def __init__(
        self,
        node: int,
        boot: int,
        voters: Sequence[int],
        round_seconds: float,
        chance: Callable[[], float],
        memory: Memory | None = None,
    ) -> None:
        self.proposer = Proposer(node, boot, voters, round_seconds, memory)
        self.outcome: GroupConfig | None = None
        self.abandoned = False
        self._back_off = BackOff(chance)
        self._function: Callable[[GroupConfig], GroupConfig | None] | None = None
        self._retry_at = 0.0

    @property
    def busy(self) -> bool:
        return self._function is not None

    def start(self, function: Callable[[GroupConfig], GroupConfig | None], now: float) -> list[Send[RegisterMessage]]:
        """The function may be called several times, each time with the value of a new round."""
        assert not self.busy
        self._function, self.outcome, self.abandoned = function, None, False
        self._back_off.reset()
        return self.proposer.start(now)

    def received(self, sender: int, message: Promise | Accepted | Refuse, now: float) -> list[Send[RegisterMessage]]:
        return [*self.proposer.received(sender, message), *self._step(now)]

    def tick(self, now: float) -> list[Send[RegisterMessage]]:
        if not self.busy:
            return []
        if self.proposer.stage is Stage.IDLE:
            return self.proposer.start(now) if now >= self._retry_at else []
        return self.proposer.tick(now) + self._step(now)

    def _step(self, now: float) -> list[Send[RegisterMessage]]:
        if self._function is None:
            return []
        stage = self.proposer.stage
        if stage is Stage.LEARNED:
            assert self.proposer.learned is not None
            following = self._function(self.proposer.learned)
            if following is not None:
                return self.proposer.propose(following, now)
            self.abandoned = True
            self._finish(self.proposer.learned)
        elif stage is Stage.CHOSEN:
            assert self.proposer.proposed is not None
            self._finish(self.proposer.proposed)
        elif stage is Stage.FAILED:
            self._retry_at = now + self.proposer.wait + self._back_off.next()
            self.proposer.stop()
        return []

    def drop(self) -> None:
        """Whoever wanted the change is gone. What was proposed may still be chosen."""
        self.outcome, self._function = None, None
        self.proposer.stop()

    def _finish(self, outcome: GroupConfig) -> None:
        self.outcome, self._function = outcome, None
        self.proposer.stop()

    def next_deadline(self) -> float | None:
        if not self.busy:
            return None
        return self._retry_at if self.proposer.stage is Stage.IDLE else self.proposer.next_deadline()


def initialise(config: GroupConfig) -> Send[RegisterMessage]:
    """Write the first value, once in the life of a group; voters that have a value already ignore it."""
    return Send(tuple(voter.node for voter in config.voters), Initialise(config))
