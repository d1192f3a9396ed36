"""New votes for a group that has lost the majority of them for good, though a member has its records.

The member's own vote is written anew, and its configuration names that member alone: in sync, and as voter. So it
leads by itself when it is started; the others, whatever they still have, answer it, are filled, and are taken in one by
one. Nothing else is written, and nothing is sent to anybody. The new value stands above everything that an old vote can
say, by its version and its ballot; against old votes that still are a majority somewhere, and are started, nothing
helps.

What was done is on record: in the register and the log, as of a promotion that was forced (R13), and in the file
`votes-rebuilt` beside the vote, a line of JSON for each time.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tocsin.cluster.group_config import Ballot, GroupConfig, Replica, next_epoch
from tocsin.cluster.vote import Vote, decode_vote
from tocsin.journal.atomic_file import read_file, replace_file
from tocsin.journal.slot_file import read_slots
from tocsin.model.errors import ConfigError, JournalDamaged, StorageFull
from tocsin.node.cluster_config import Group
from tocsin.node.cluster_init import VOTE, group_folder
from tocsin.node.group_journal import has_payload
from tocsin.node.node_config import NodeConfig
from tocsin.node.voter_host import write_vote
from tocsin.replication.journal_work import new_store, open_log
from tocsin.replication.rules import LogEnd
from tocsin.runtime.disk import Disk, SystemRandom, lock_directory
from tocsin.runtime.ports import Buffer

RECORD = "votes-rebuilt"
_ABOVE = 1 << 32
"""By so much versions and ballots are above what the node knows: more changes than a group ever has."""


@dataclass(frozen=True, slots=True)
class FoundLog:
    """What a member that does not run has."""

    replica: Replica
    end: LogEnd
    promised: int


def find_log(config: NodeConfig, group: Group) -> FoundLog:
    """Opens the member's files as a start would, whatever a crash left of them. The node must not run."""
    folder = config.server.data_dir / group_folder(group.number)
    if not folder.is_dir():
        raise ConfigError(f"{config.node.name} has no data of {group.name}: {folder} does not exist.")
    lock = lock_directory(config.server.data_dir)
    try:
        opened = open_log(Disk(folder), config.server.segment_bytes, SystemRandom(), has_payload)
        log = opened.log
        end = LogEnd(log.epoch_at(log.last_lsn), log.last_lsn)
        opened.work.close()
        return FoundLog(Replica(config.node.number, log.store), end, log.promised)
    finally:
        lock.release()


def rebuild_votes(config: NodeConfig, group: Group, wall: float) -> GroupConfig:
    """Writes the vote, after the record of it; returns the value that it holds from now on."""
    found = find_log(config, group)
    lock = lock_directory(config.server.data_dir)
    try:
        files = Disk(config.server.data_dir / group_folder(group.number))
        before = _vote_before(files)
        settings, random = config.cluster.group_settings(group), SystemRandom()
        old = before.config
        epoch = next_epoch(max(found.promised, old.epoch if old is not None else 0), settings.rank(config.node.number))
        voter = Replica(config.node.number, new_store(random))
        ballot = Ballot(before.promised.counter + _ABOVE, config.node.number, 1)
        version = (old.version if old is not None else 0) + _ABOVE
        value = GroupConfig(
            version, epoch, config.node.number, (found.replica,), (voter,), group.copies, epoch, found.end.lsn
        )  # fmt: skip
        _leave_record(files, wall, config, group, before, value)
        if not write_vote(files, Vote(voter.store, ballot, ballot, value)):
            raise StorageFull("No room left on the disk for a vote; free some space.")
        return value
    finally:
        lock.release()


def _vote_before(files: Disk) -> Vote:
    """What is left of it; nothing of one that cannot be read, which is one of those that are lost."""
    try:
        return decode_vote(read_slots(files, VOTE), VOTE)
    except (FileNotFoundError, JournalDamaged):
        return Vote(0)


def _leave_record(files: Disk, wall: float, config: NodeConfig, group: Group, before: Vote, value: GroupConfig) -> None:
    entry = {
        "time": wall,
        "cluster": config.cluster.name,
        "group": group.name,
        "node": config.node.name,
        "last_lsn": value.unclean_lsn,
        "epoch": value.epoch,
        "version": value.version,
        "before": _told(before.config),
    }
    lines: list[Buffer] = [json.dumps(entry).encode() + b"\n"]
    with suppress(FileNotFoundError):
        lines.insert(0, read_file(files, RECORD))
    if not replace_file(files, RECORD, lines):
        raise StorageFull("No room left on the disk to leave a record of it; free some space. Nothing was changed.")


def _told(config: GroupConfig | None) -> dict[str, Any] | None:
    if config is None:
        return None
    return {
        "version": config.version,
        "epoch": config.epoch,
        "primary": config.primary,
        "in_sync": [list(replica) for replica in config.in_sync],
        "voters": [list(voter) for voter in config.voters],
    }
