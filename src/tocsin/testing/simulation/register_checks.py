"""Checkers of a group's register, from the votes as they become durable: I3, I4 and I5."""

from __future__ import annotations

from tocsin.cluster.group_config import Ballot, GroupConfig, Replica, is_majority
from tocsin.cluster.vote import Vote
from tocsin.testing.fault_script import Script


class Violation(AssertionError):
    """An invariant is broken."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.script: Script | None = None
        """What the seed did until then."""
        self.at = 0.0


def as_violation(error: Exception) -> Violation:
    """I0: the code under test raises nothing, and its assertions hold."""
    return error if isinstance(error, Violation) else Violation("I0", f"{type(error).__name__}: {error}")


def _ballot(vote: Vote) -> Ballot:
    return vote.accepted


class RegisterChecks:
    def __init__(self) -> None:
        self.config: GroupConfig | None = None
        """The newest configuration that was chosen."""
        self.proposed: set[GroupConfig] = set()
        """Every configuration that was ever put to the voters, as far as it was told."""
        self.in_sync_changes = 0
        self._config_ballot = Ballot(0, 0, 0)
        self._by_version: dict[int, GroupConfig] = {}
        self._accepted: dict[Ballot, tuple[GroupConfig, set[Replica]]] = {}
        self._promised: dict[Replica, Ballot] = {}
        self._primaries: dict[int, int] = {}
        self._votes: dict[Replica, Vote] = {}

    def voted(self, node: int, vote: Vote) -> None:
        """A voter's file says this now, durably."""
        replica = Replica(node, vote.store)
        if vote.promised < self._promised.get(replica, vote.promised):
            raise Violation("I4", f"{replica} promised {vote.promised} after {self._promised[replica]}")
        self._promised[replica] = vote.promised
        if vote.config is None:
            return
        self._votes[replica] = vote
        config, voters = self._accepted.setdefault(vote.accepted, (vote.config, set()))
        if config != vote.config:
            raise Violation("I4", f"two configurations at ballot {vote.accepted}: {config} and {vote.config}")
        voters.add(replica)
        if is_majority(config.voters, voters):
            self._choose(vote.accepted, config)

    def _choose(self, ballot: Ballot, config: GroupConfig) -> None:
        other = self._by_version.setdefault(config.version, config)
        if other != config:
            raise Violation("I4", f"version {config.version} is both {other} and {config}")
        if ballot <= self._config_ballot:
            return
        current = self.config
        if current is not None and (config.version < current.version or config.epoch < current.epoch):
            raise Violation("I4", f"{config} was chosen after {current}")
        if current is not None and config != current:
            self._check_successor(current, config)
        self._config_ballot, self.config = ballot, config

    def _check_successor(self, current: GroupConfig, config: GroupConfig) -> None:
        if config.epoch == current.epoch:
            self.in_sync_changes += 1
            return
        promoted = {replica for replica in current.in_sync if replica.node == config.primary}
        if config.version == current.version + 1 and not promoted:
            raise Violation("I5", f"node {config.primary} was promoted, but in sync were {current.in_sync}")

    def forget(self, replica: Replica) -> None:
        """Its vote is lost: nobody will ever read it."""
        self._votes.pop(replica, None)

    def findable(self) -> list[GroupConfig]:
        """Every configuration that a round could find, depending on who answers it: of each majority of votes as they
        are on disk, the one with the highest ballot. A proposal that only a few have accepted is among them until a
        newer one is chosen, whatever became of the round that made it.
        """
        current = self.config
        if current is None:
            return []
        votes = sorted((vote for replica, vote in self._votes.items() if replica in current.voters), key=_ballot)
        needed = len(current.voters) // 2
        return [vote.config for vote in votes[needed:] if vote.config is not None]

    def promoted(self, node: int, epoch: int) -> bool:
        """A member is primary of an epoch from now on; False when it is stale already: it cannot commit any more."""
        other = self._primaries.setdefault(epoch, node)
        if other != node:
            raise Violation("I3", f"epoch {epoch} has the primaries {other} and {node}")
        return self.config is None or epoch >= self.config.epoch
