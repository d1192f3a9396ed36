"""Brings a member level that needs more than the log still has: a snapshot, chunk by chunk (R14).

Nothing pauses for it. A backup is asked before the primary is. Every chunk has its hash, and the hash of all
hashes tells that they belong together; a chunk that is damaged or of another snapshot is asked for again.
Afterwards the member follows the log from there, and joins the in-sync set like anybody else.
"""

from __future__ import annotations

from hashlib import blake2b

from tocsin.cluster.group_config import GroupConfig
from tocsin.model.limits import SNAPSHOT_BYTES_MAX
from tocsin.replication import rules
from tocsin.replication.context import Context
from tocsin.replication.data_pool import DIGEST_BYTES, digest_of
from tocsin.replication.events import InstallSnapshot, StageChunk
from tocsin.replication.messages import SnapshotChunk, SnapshotWanted
from tocsin.replication.roles import Trigger

_ATTEMPTS_MAX = 20
"""Requests in a row without an answer; then it is time to look at the log again."""


class CatchUp:
    def __init__(self, context: Context, epoch: int, primary: int, hint: GroupConfig | None, now: float) -> None:
        self._context, self.epoch, self.primary = context, epoch, primary
        self.trigger: Trigger | None = None
        self.installing = False
        """From here on the log is being replaced: nothing else may touch it."""
        self._sources = _sources(context.node, primary, hint)
        self._attempts = 0
        self._lsn = self._snapshot_epoch = self._count = self._bytes = 0
        self._whole = b""
        self._digests: list[bytes] = []
        self._ask_at = now
        self.tick(now)

    def tick(self, now: float) -> None:
        if self.installing or now < self._ask_at:
            return
        if self._attempts >= _ATTEMPTS_MAX:
            self.trigger = Trigger.GAVE_UP
            return
        if self._attempts:
            self._forget()
        self._ask(now)

    def _source(self) -> int:
        """The next one when the last did not answer."""
        return self._sources[self._attempts // 2 % len(self._sources)]

    def _ask(self, now: float) -> None:
        self._context.send((self._source(),), SnapshotWanted(self._lsn, len(self._digests)))
        self._attempts += 1
        self._ask_at = now + 2 * self._context.settings.fetch_seconds

    def chunk(self, sender: int, message: SnapshotChunk, now: float) -> None:
        if self.installing or message.index != len(self._digests) or message.digest != digest_of(message.data):
            return
        same = (message.lsn, message.whole) == (self._lsn, self._whole)
        if message.count == 0 or (self._digests and not same):
            self._forget()
            return
        if not self._digests:
            self._lsn, self._snapshot_epoch, self._whole = message.lsn, message.epoch, message.whole
            self._count, self._bytes = message.count, 0
            if not self._may_install():
                self.trigger = Trigger.GAVE_UP
                return
        self._bytes += len(message.data)
        self._digests.append(message.digest)
        self._attempts = 0
        self._context.out.append(StageChunk(self._lsn, message.index, message.data))
        if len(self._digests) < self._count and self._bytes <= SNAPSHOT_BYTES_MAX:
            self._ask(now)
        else:
            self._complete()

    def _may_install(self) -> bool:
        log = self._context.log
        inside = log.base_lsn <= self._lsn <= log.last_lsn
        own_epoch = log.epoch_at(self._lsn) if inside else None
        ahead = self._lsn > self._context.committed
        return ahead and rules.may_install(log.last_lsn, own_epoch, self._lsn, self._snapshot_epoch)

    def _complete(self) -> None:
        if whole_digest(self._digests) != self._whole or not self._may_install():
            self._forget()
            return
        self.installing = True
        self._context.out.append(InstallSnapshot(self._lsn, self._snapshot_epoch, self._count))

    def installed(self, lsn: int) -> None:
        assert self.installing and lsn == self._lsn
        self._context.restart_behind(lsn)
        self.trigger = Trigger.INSTALLED

    def _forget(self) -> None:
        """Begin again at the next tick, perhaps elsewhere."""
        self._lsn, self._whole, self._digests = 0, b"", []

    def next_deadline(self) -> float:
        return float("inf") if self.installing else self._ask_at


def _sources(node: int, primary: int, hint: GroupConfig | None) -> list[int]:
    backups = [] if hint is None else [replica.node for replica in hint.in_sync]
    return [other for other in backups if other not in (node, primary)] + [primary]


def whole_digest(digests: list[bytes]) -> bytes:
    return blake2b(b"".join(digests), digest_size=DIGEST_BYTES).digest()
