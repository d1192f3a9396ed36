"""The candidate: from silence to the register's word that this member is primary (R6, R7, R8, R11, R13, R16).

    preparing   a majority of voters promises, and tells the newest configuration
    fencing     in-sync members promise the new epoch and tell where their logs end
    adopting    the best of these logs is made the own one
    proposing   the voters accept the new configuration

    auditing    in place of the last two: somebody has seen a commit beyond the best log. Either that log lost it, or
                the configuration has changed since a majority told it. The voters accept it again, unchanged, only if
                it is still the newest: then it is an alarm.

The epoch is the candidate's alone: its rank is part of it, and it has promised it durably before it tells
anybody, so that it never uses it twice.

Before one leads, the in-sync members that answer show their logs; rank decides among equals only. An older copy, of the
candidate's log or of another's, counts for nothing.

An operator who gives up the in-sync members may force a promotion (R13): then any member will do, and the best log
within reach is taken, whatever is missing in it.
"""

from __future__ import annotations

from enum import Enum, auto

from tocsin.cluster.group_config import EPOCH_MAX, GroupConfig, Replica, next_epoch
from tocsin.cluster.proposer import RESEND_SECONDS, Proposer, Stage
from tocsin.cluster.register_messages import Accepted, Outdated, Promise, Refuse
from tocsin.replication import rules
from tocsin.replication.context import Context, Unsafe
from tocsin.replication.merging import LogPuller, Merged
from tocsin.replication.messages import Fence, Fenced, Fetched
from tocsin.replication.roles import Trigger
from tocsin.replication.rules import LogEnd


class Phase(Enum):
    PREPARING = auto()
    FENCING = auto()
    ADOPTING = auto()
    PROPOSING = auto()
    AUDITING = auto()


class Promotion:
    def __init__(self, context: Context, proposer: Proposer, now: float, *, forced: bool = False) -> None:
        self._context, self._proposer, self._forced = context, proposer, forced
        self.trigger: Trigger | None = None
        self.phase = Phase.PREPARING
        self.epoch = 0
        self.config: GroupConfig | None = None
        """The one to become primary with, once it is chosen."""
        self.unfit = False
        """Not in sync, or too far behind to adopt the best log: others should try before it does again."""
        self.wait = 0.0
        self._found: GroupConfig | None = None
        self._ends: dict[Replica, LogEnd] = {}
        self._lost: set[int] = set()
        """Nodes whose store that was in sync is no more, or is an older copy."""
        self._adopted = LogEnd(0, 0)
        self._puller: LogPuller | None = None
        self._deadline = self._again_at = self._grace_until = float("inf")
        context.send_all(proposer.start(now))

    # ---- the register

    def received(self, sender: int, message: Promise | Accepted | Refuse, now: float) -> None:
        self._context.send_all(self._proposer.received(sender, message))
        self._step(now)

    def _step(self, now: float) -> None:
        stage = self._proposer.stage
        if stage is Stage.FAILED:
            self.wait = self._proposer.wait
            self._give_up()
        elif stage is Stage.LEARNED and self.phase is Phase.PREPARING:
            assert self._proposer.learned is not None
            self._learned(self._proposer.learned, now)
        elif stage is Stage.CHOSEN and self.phase is Phase.AUDITING:
            raise Unsafe(
                f"The best log within reach ends at {self._adopted.lsn}, but record {self._proposer.commit_hint} "
                "was committed: a disk has lost what it confirmed. Nobody is promoted."
            )
        elif stage is Stage.CHOSEN:
            ours = rules.still_ours(self.epoch, self._context.log.promised)
            self.trigger = Trigger.CHOSEN if ours else Trigger.GAVE_UP

    def _learned(self, found: GroupConfig, now: float) -> None:
        """What a single voter remembers may be from before a forced promotion (R13): only a majority tells."""
        older = self._context.memory.members.evidence(self._context.replica, self._context.life)
        if older is not None and not self._forced:
            self._context.renounce(older)
            self.renounced()
        else:
            self._fence(found, now)

    def renounced(self) -> None:
        """The log has turned out to be an older copy: nobody may lead with it."""
        self.unfit = True
        self._give_up()

    def _give_up(self) -> None:
        self.trigger = Trigger.GAVE_UP

    # ---- fencing

    def _fence(self, found: GroupConfig, now: float) -> None:
        context = self._context
        if not self._forced and not rules.may_stand(found, context.replica):
            self.unfit = True
            self._give_up()
            return
        log = context.log
        self._found, self.phase = found, Phase.FENCING
        self.epoch = next_epoch(max(found.epoch, log.promised), context.settings.rank(context.node))
        if self.epoch > EPOCH_MAX:
            raise Unsafe(f"Epoch {self.epoch} is beyond the last one that there can be. Nobody is promoted.")
        self._deadline = now + context.settings.fence_seconds + self._grace()
        self._again_at = now + RESEND_SECONDS
        log.promise(self.epoch)
        self._ask_for_fences()
        self.log_progress(now)

    def _ask_for_fences(self) -> None:
        answered = {replica.node for replica in self._ends}
        others = tuple(sorted(self._wanted_nodes() - answered - {self._context.node}))
        # The others hear of the epoch only when it can never be used again by mistake.
        if others and self._context.log.durable_promise >= self.epoch:
            self._context.send(others, Fence(self.epoch))

    def _wanted_nodes(self) -> set[int]:
        """Whose logs count; when it is forced, everybody's."""
        assert self._found is not None
        if self._forced:
            return set(self._context.settings.members)
        return {replica.node for replica in self._found.in_sync} - self._lost

    def _grace(self) -> float:
        """How long to wait for logs that are not needed, but may be better than those that are."""
        settings = self._context.settings
        if self._forced:
            return settings.fence_seconds
        return settings.fence_grace_seconds if self._context.proven else settings.meeting_seconds

    def fenced(self, message: Fenced, now: float) -> None:
        if self.phase is not Phase.FENCING or message.epoch != self.epoch or self._found is None:
            return
        context, replica = self._context, message.replica
        older = None if self._forced else context.memory.members.evidence(replica, message.life)
        if older is not None:
            context.send((replica.node,), Outdated(older))
        if self._forced or (replica in self._found.in_sync and older is None):
            context.memory.members.note(replica, message.life.start)
            self._ends[replica] = message.end
        else:
            self._lost.add(replica.node)
        self._count(now)

    def log_progress(self, now: float) -> None:
        context, log = self._context, self._context.log
        settled = log.durable_promise >= self.epoch and log.durable_lsn == log.last_lsn
        if self.phase is Phase.FENCING and settled and context.replica not in self._ends:
            self._ask_for_fences()
            self._ends[context.replica] = context.log_end()
            self._count(now)
        elif self.phase is Phase.ADOPTING and settled and context.log_end() == self._adopted:
            self._propose(now)

    def _count(self, now: float) -> None:
        found = self._found
        assert found is not None
        needed = 1 if self._forced else rules.fences_needed(found)
        if len(self._ends) < needed or self._context.replica not in self._ends:
            return
        if self._wanted_nodes() <= {replica.node for replica in self._ends}:
            self._adopt(now)
        elif self._grace_until == float("inf"):
            self._grace_until = now + self._grace()

    # ---- adopting

    def _adopt(self, now: float) -> None:
        context = self._context
        self.phase, self._grace_until, self._again_at = Phase.ADOPTING, float("inf"), float("inf")
        self._adopted = rules.best_log(self._ends.values())
        if not self._forced and not rules.passes_audit(self._adopted, self._proposer.commit_hint):
            assert self._found is not None
            self.phase, self._deadline = Phase.AUDITING, float("inf")
            context.send_all(self._proposer.propose(self._found, now))
            return
        if self._ends[context.replica] == self._adopted:
            self._propose(now)
            return
        source = next(replica.node for replica, end in self._ends.items() if end == self._adopted)
        self._puller = LogPuller(context, self.epoch, source)
        self._deadline = now + context.settings.adopt_seconds
        self._puller.ask(now)

    def fetched(self, sender: int, message: Fetched, now: float) -> None:
        puller = self._puller
        if puller is None or sender != puller.source or self.phase is not Phase.ADOPTING:
            return
        before = puller.matched
        merged = puller.fetched(message)
        if merged is Merged.TOO_OLD:
            self.unfit = True
            self._give_up()
        elif self._context.log_end() == self._adopted:
            self.log_progress(now)
        elif puller.matched > before or merged is Merged.MISMATCH:
            puller.ask(now)

    @property
    def missing(self) -> int:
        """Records behind the adopted log that are known to have been committed: lost, when it was forced."""
        return max(0, self._proposer.commit_hint - self._adopted.lsn)

    # ---- proposing

    def _propose(self, now: float) -> None:
        context = self._context
        assert self._found is not None
        self.phase, self._deadline = Phase.PROPOSING, float("inf")
        self._again_at = float("inf")
        self._ends[context.replica] = self._adopted
        in_sync = rules.still_in_sync(self._ends, self._adopted)
        if self._forced:
            self.config = self._found.uncleanly_led_by(context.node, self.epoch, in_sync, self._adopted.lsn)
        else:
            self.config = self._found.led_by(context.node, self.epoch, in_sync)
        context.send_all(self._proposer.propose(self.config, now))

    # ---- time

    def tick(self, now: float) -> None:
        self._context.send_all(self._proposer.tick(now))
        self._step(now)
        if self.trigger is not None:
            return
        if now >= self._deadline:
            self._give_up()
        elif now >= self._grace_until:
            self._adopt(now)
        elif self.phase is Phase.FENCING and now >= self._again_at:
            self._again_at = now + RESEND_SECONDS
            self._ask_for_fences()
        elif self._puller is not None and self.phase is Phase.ADOPTING and self._puller.may_ask(now):
            self._puller.ask(now)

    def next_deadline(self) -> float:
        times = [self._deadline, self._grace_until, self._again_at]
        round_end = self._proposer.next_deadline()
        if round_end is not None:
            times.append(round_end)
        if self._puller is not None and self.phase is Phase.ADOPTING:
            times.append(self._puller.ask_again_at())
        return min(times)
