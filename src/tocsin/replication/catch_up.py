"""Brings a member level that needs more than the log still has: a snapshot, chunk by chunk (R14).

Nothing pauses for it. A backup is asked before the primary is. Every chunk has its hash, and the hash of all
hashes tells that they belong together; a chunk that is damaged or of another snapshot is asked for again. The
next one is asked for when the one before is staged, so that a slow disk is never buried. Afterwards the member
follows the log from there, and joins the in-sync set like anybody else.
"""

from __future__ import annotations

from hashlib import blake2b

from tocsin.cluster.group_config import GroupConfig
from tocsin.model.limits import SNAPSHOT_BYTES_MAX, SNAPSHOT_WAITS_MAX
from tocsin.replication import rules
from tocsin.replication.backup import Backup
from tocsin.replication.context import Context
from tocsin.replication.data_pool import DIGEST_BYTES, digest_of
from tocsin.replication.events import ChunkStaged, InstallSnapshot, SnapshotRefused, StageChunk
from tocsin.replication.messages import SnapshotChunk, SnapshotWanted
from tocsin.replication.roles import Trigger

_ATTEMPTS_MAX = 20
"""Requests in a row without an answer; then it is time to look at the log again."""
_PAUSE = 20
"""In fetch times: before anything is asked for again after the own disk has refused it."""


class CatchUp:
    def __init__(self, context: Context, follower: Backup, now: float) -> None:
        self._context, self.epoch, self.primary = context, follower.epoch, follower.primary
        self.trigger: Trigger | None = None
        self.installing = False
        """From here on the log is being replaced: nothing else may touch it."""
        self._needed = follower.needed
        self._sources = _sources(context.node, follower.primary, follower.hint)
        self._attempts = 0
        self._waits = SNAPSHOT_WAITS_MAX
        self._staging = False
        self._lsn = self._snapshot_epoch = self._count = self._bytes = 0
        self._whole = b""
        self._digests: list[bytes] = []
        self._ask(now)

    def tick(self, now: float) -> None:
        if self.installing or self._staging or now < self._ask_at:
            return
        if self._attempts % 2 == 0:
            self._turn_elsewhere(now)
        else:
            self._ask(now)

    def _ask(self, now: float) -> None:
        """For the next chunk, or the first one. Asked in vain too often, the log must be looked at again."""
        self._attempts += 1
        if self._attempts > _ATTEMPTS_MAX:
            self.trigger = Trigger.GAVE_UP
            return
        self._context.send((self._sources[0],), SnapshotWanted(self._lsn, len(self._digests)))
        self._ask_at = now + 2 * self._context.settings.fetch_seconds

    def _turn_elsewhere(self, now: float) -> None:
        """Begin anew with the next source."""
        self._begin_anew()
        self._ask(now)

    def _begin_anew(self) -> None:
        self._sources.append(self._sources.pop(0))
        self._lsn, self._whole, self._digests = 0, b"", []

    def chunk(self, sender: int, message: SnapshotChunk, now: float) -> None:
        busy = self.installing or self._staging
        if busy or sender != self._sources[0] or message.index != len(self._digests):
            return
        if message.count == 0 and message.lsn != 0 and self._lsn == 0 and self._waits:
            # It is being made: this source answers, so it is asked again when it is time.
            self._waits, self._attempts = self._waits - 1, 1
            return
        if not self._fits(message):
            self._turn_elsewhere(now)
            return
        if message.digest != digest_of(message.data):
            # Damaged on the way; it is asked for again in a moment.
            return
        if not self._digests:
            self._lsn, self._snapshot_epoch, self._whole = message.lsn, message.epoch, message.whole
            self._count, self._bytes = message.count, 0
        self._bytes += len(message.data)
        self._digests.append(message.digest)
        self._attempts = 0
        self._staging = True
        self._context.out.append(StageChunk(self._lsn, message.index, message.data))

    def staged(self, event: ChunkStaged, now: float) -> None:
        if not self._staging or (event.lsn, event.index) != (self._lsn, len(self._digests) - 1):
            return
        self._staging = False
        if len(self._digests) < self._count:
            self._ask(now)
        else:
            self._complete(now)

    def _fits(self, message: SnapshotChunk) -> bool:
        """Of a snapshot that exists and is of use, and of the one that was begun."""
        if message.count == 0 or message.lsn < self._needed or self._bytes > SNAPSHOT_BYTES_MAX:
            return False
        if not self._digests:
            return self._may_install(message.lsn, message.epoch)
        return (message.lsn, message.whole) == (self._lsn, self._whole)

    def _may_install(self, lsn: int, epoch: int) -> bool:
        log = self._context.log
        own_epoch = log.epoch_at(lsn) if log.base_lsn <= lsn <= log.last_lsn else None
        return lsn > self._context.committed and rules.may_install(log.last_lsn, own_epoch, lsn, epoch)

    def _complete(self, now: float) -> None:
        if whole_digest(self._digests) != self._whole or not self._may_install(self._lsn, self._snapshot_epoch):
            self._turn_elsewhere(now)
            return
        self.installing = True
        self._context.out.append(InstallSnapshot(self._lsn, self._snapshot_epoch, self._count))

    def refused(self, event: SnapshotRefused, now: float) -> None:
        """The disk may have room later, and another source may have what this one could not give."""
        if event.lsn != self._lsn or not (self._staging or self.installing):
            return
        self._staging = self.installing = False
        self._begin_anew()
        self._attempts = 1
        self._ask_at = now + _PAUSE * self._context.settings.fetch_seconds

    def installed(self, lsn: int) -> None:
        assert self.installing and lsn == self._lsn
        self._context.restart_behind(lsn)
        self.trigger = Trigger.INSTALLED

    def next_deadline(self) -> float:
        return float("inf") if self.installing or self._staging else self._ask_at


def _sources(node: int, primary: int, hint: GroupConfig | None) -> list[int]:
    backups = [] if hint is None else [replica.node for replica in hint.in_sync]
    return [other for other in backups if other not in (node, primary)] + [primary]


def whole_digest(digests: list[bytes]) -> bytes:
    return blake2b(b"".join(digests), digest_size=DIGEST_BYTES).digest()
