"""Which messages of a group are taken at all: said by somebody who may say it, of itself, and with numbers in range.

    members of the group    all about the log, rounds at the register
    the owner of an epoch   what a candidate or a primary says in it: the rank in the epoch is the owner's
    voters                  their answers, and only in their own name
    anybody on the channel  what a client manager has seen committed

All nodes of a cluster have one secret, so this does not find out who lies. It keeps mistakes and malice of a node that
is no member out of the log, and numbers that nothing could be added to out of the machines.
"""

from __future__ import annotations

from itertools import pairwise

from tocsin.cluster.group_config import EPOCH_MAX, Ballot, GroupConfig, owner_of
from tocsin.cluster.lives import Known, Life
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
from tocsin.model.limits import GROUP_NUMBER_MAX, GROUP_SECONDS_MAX, SNAPSHOT_BYTES_MAX, SNAPSHOT_CHUNK_BYTES
from tocsin.replication.messages import (
    Acked,
    CopyGiven,
    CopyWanted,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    GroupMessage,
    Nack,
    Order,
    SnapshotChunk,
    SnapshotWanted,
    Stand,
)
from tocsin.replication.settings import GroupSettings

_CHUNKS_MAX = SNAPSHOT_BYTES_MAX // SNAPSHOT_CHUNK_BYTES


def is_credible(settings: GroupSettings, sender: int, message: GroupMessage) -> bool:
    return _may_say(settings, sender, message) and _is_in_range(message)


def _may_say(settings: GroupSettings, sender: int, message: GroupMessage) -> bool:
    match message:
        case CommitSeen():
            return True
        case Refuse():
            return sender in settings.voters
        case Promise() | Accepted() | HeartbeatAnswer():
            return sender in settings.voters and message.voter.node == sender
        case Fenced():
            return sender in settings.members and message.replica.node == sender
        case Heartbeat() | Order() | Fence() | Resigned() | Stand():
            return owner_of(message.epoch, settings.members) == sender
        case _:
            return sender in settings.members


def _is_in_range(message: GroupMessage) -> bool:
    match message:
        case Order():
            return (
                _epochs(message.previous_epoch, message.epoch)
                and _numbers(message.first, message.commit)
                and message.first > 0
                and all(entry.kind for entry in message.entries)
            )
        case Fetched():
            rising = [message.previous_epoch, *(entry.epoch for entry in message.entries), message.epoch]
            return (
                _epochs(*rising)
                and _numbers(message.first, message.commit, message.base)
                and all(entry.kind for entry in message.entries)
            )
        case Acked():
            return _epochs(message.epoch) and _numbers(message.lsn) and _life(message.life)
        case Nack():
            return _epochs(message.promised)
        case Fetch():
            return _epochs(message.epoch) and _numbers(message.first)
        case Fenced():
            return (
                _epochs(message.epoch) and _epochs(message.end.epoch) and _numbers(message.end.lsn)
                and _life(message.life)
            )  # fmt: skip
        case Fence() | Stand():
            return _epochs(message.epoch)
        case SnapshotWanted():
            return _numbers(message.lsn) and message.index < _CHUNKS_MAX
        case SnapshotChunk():
            return _epochs(message.epoch) and _numbers(message.lsn) and message.count <= _CHUNKS_MAX
        case CopyWanted():
            return _numbers(message.lsn, message.first)
        case CopyGiven():
            return _numbers(message.wanted.lsn, message.wanted.first)
        case _:
            return _register_in_range(message)


def _register_in_range(message: RegisterMessage) -> bool:
    match message:
        case Prepare():
            return _ballot(message.ballot)
        case Promise():
            return (
                _ballot(message.ballot)
                and _ballot(message.accepted)
                and (message.config is None or _config(message.config))
                and _numbers(message.commit_hint)
                and _life(message.life)
                and _known(message.known)
            )
        case Refuse():
            return _ballot(message.ballot) and _ballot(message.promised) and _times(message.wait)
        case Accept():
            return _ballot(message.ballot) and _config(message.config)
        case Accepted():
            return _ballot(message.ballot) and _life(message.life)
        case Initialise():
            return _config(message.config)
        case Heartbeat():
            return (
                _epochs(message.epoch)
                and _times(message.sent, message.wall, *(stamp for _, stamp in message.echoes))
                and _numbers(message.commit, message.last)
                and _config(message.config)
                and _known(message.known)
            )
        case HeartbeatAnswer():
            return _epochs(message.epoch) and _times(message.sent, message.stamp) and _life(message.life)
        case Resigned():
            return _epochs(message.epoch) and _times(message.sent)
        case CommitSeen():
            return _epochs(message.epoch) and _numbers(message.lsn)
        case Outdated():
            return _numbers(message.seen.position)


def _epochs(*rising: int) -> bool:
    """Along a log epochs never fall, and nothing is of a later epoch than the message."""
    return rising[-1] <= EPOCH_MAX and all(before <= after for before, after in pairwise(rising))


def _numbers(*numbers: int) -> bool:
    """Each can be counted on from."""
    return max(numbers) <= GROUP_NUMBER_MAX


def _times(*seconds: float) -> bool:
    """Not NaN either, which no comparison holds for."""
    return all(-GROUP_SECONDS_MAX <= each <= GROUP_SECONDS_MAX for each in seconds)


def _ballot(ballot: Ballot) -> bool:
    return _numbers(ballot.counter)


def _config(config: GroupConfig) -> bool:
    return _epochs(config.unclean_epoch) and _epochs(config.epoch) and _numbers(config.version, config.unclean_lsn)


def _life(life: Life) -> bool:
    return _numbers(life.position)


def _known(known: Known) -> bool:
    return all(_numbers(seen.position) for table in known for seen in table)
