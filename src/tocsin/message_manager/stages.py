"""Stages: batches that are stored under an id and seen by nobody until the stage is committed, all at once.

A stage is a sibling of a delayed batch: its batches have no offset, count as no backlog and pin no segment of the
journal. They are rows of typed arrays with the types of the log's, because a commit adds them to the log as they are:
thousands of batches must not hold up everybody else.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from tocsin.message_manager.delay import DelayedBatch, due_ms
from tocsin.message_manager.log import row_flags
from tocsin.model.batch import FLAG_GROUPS, Block
from tocsin.model.errors import ResourceExhausted
from tocsin.model.limits import EPOCH_MEMORY_SECONDS, EPOCHS_MAX, EPOCHS_PER_USER_MAX

STAGE_ID_BYTES = 16
_ARRAYS = ("lsns", "counts", "sizes", "dues", "expiries")
_BYTES = ("priorities", "flags")
_GONE_MAX = 64
COLUMNS = (*_ARRAYS, *_BYTES)
"""What a stage has one of for each of its batches."""


class Stage:
    __slots__ = (
        "counts", "dues", "expiries", "flags", "left_out", "lsns", "messages", "priorities", "seconds", "sizes",
        "touched_ms",
    )  # fmt: skip

    def __init__(self, seconds: int, touched_ms: int) -> None:
        self.seconds = seconds
        # When it was opened, or appended to last.
        self.touched_ms = touched_ms
        self.messages = 0
        self.lsns = array("Q")
        self.counts = array("I")
        self.sizes = array("I")
        self.dues = array("q")
        self.expiries = array("q")
        self.priorities = bytearray()
        self.flags = bytearray()
        self.left_out: dict[int, tuple[int, ...]] = {}
        """By record: views that do not get a batch because it is their own (J82)."""

    def __len__(self) -> int:
        return len(self.lsns)

    @property
    def deadline_ms(self) -> int:
        return self.touched_ms + 1000 * self.seconds

    def add(self, lsn: int, block: Block, append_time: int, left_out: tuple[int, ...]) -> None:
        self.touched_ms = max(self.touched_ms, append_time)
        self.messages += block.count
        self.lsns.append(lsn)
        self.counts.append(block.count)
        self.sizes.append(block.length)
        self.dues.append(due_ms(block, append_time))
        self.expiries.append(block.earliest_expiry)
        self.priorities.append(block.priority)
        self.flags.append(row_flags(block.delivery_mode, bool(block.flags & FLAG_GROUPS)))
        if left_out:
            self.left_out[lsn] = left_out

    def take_later(self, time_ms: int, sent_lsn: int) -> list[DelayedBatch]:
        """Takes out the batches that are not due at a time: they go on as delayed ones, sent by a record."""
        if not self.dues or max(self.dues) <= time_ms:
            return []
        later = [index for index, due in enumerate(self.dues) if due > time_ms]
        batches = [
            DelayedBatch(
                self.dues[index], self.lsns[index], self.counts[index], self.sizes[index], self.priorities[index],
                self.expiries[index], self.flags[index], self.left_out.pop(self.lsns[index], ()), sent_lsn,
            )
            for index in later
        ]  # fmt: skip
        for index in reversed(later):
            for name in COLUMNS:
                del getattr(self, name)[index]
        return batches

    # ---- snapshots

    def fields(self) -> dict[str, Any]:
        columns = {name: bytes(getattr(self, name)) for name in COLUMNS}
        left_out = [[lsn, *views] for lsn, views in self.left_out.items()]
        return {"seconds": self.seconds, "touched": self.touched_ms, "left_out": left_out, **columns}

    @classmethod
    def load(cls, fields: dict[str, Any]) -> Stage:
        stage = cls(fields["seconds"], fields["touched"])
        for name in _ARRAYS:
            getattr(stage, name).frombytes(fields[name])
        for name in _BYTES:
            setattr(stage, name, bytearray(fields[name]))
        stage.left_out = {lsn: tuple(views) for lsn, *views in fields["left_out"]}
        stage.messages = sum(stage.counts)
        return stage


class Stages:
    """The stages of one destination, by id."""

    __slots__ = ("_deadlines", "open")

    def __init__(self) -> None:
        self.open: dict[bytes, Stage] = {}
        # One entry for each stage, which may be too early: then it comes back later.
        self._deadlines: list[tuple[int, bytes]] = []

    def begin(self, identity: bytes, stage: Stage) -> None:
        self.open[identity] = stage
        if len(self._deadlines) > 2 * len(self.open) + _GONE_MAX:
            # A member that does not serve asks for no deadline, so those of stages that are gone would gather.
            self._deadlines = [(each.deadline_ms, known) for known, each in self.open.items()]
            heapq.heapify(self._deadlines)
        else:
            heapq.heappush(self._deadlines, (stage.deadline_ms, identity))

    def take(self, identity: bytes) -> Stage | None:
        return self.open.pop(identity, None)

    def earliest_ms(self) -> int | None:
        """No stage is over before this time."""
        self._drop_gone()
        return self._deadlines[0][0] if self._deadlines else None

    def over(self, now_ms: int) -> list[bytes]:
        """Stages that have been silent for longer than they may be."""
        found: list[bytes] = []
        while (earliest := self.earliest_ms()) is not None and earliest <= now_ms:
            _, identity = heapq.heappop(self._deadlines)
            deadline = self.open[identity].deadline_ms
            if deadline > now_ms:
                heapq.heappush(self._deadlines, (deadline, identity))
            else:
                found.append(identity)
        return found

    def _drop_gone(self) -> None:
        while self._deadlines and self._deadlines[0][1] not in self.open:
            heapq.heappop(self._deadlines)

    @property
    def messages(self) -> int:
        return sum(stage.messages for stage in self.open.values())

    def lsns(self) -> Iterator[int]:
        """Records whose blocks are needed."""
        for stage in self.open.values():
            yield from stage.lsns


def run_of(app: str) -> str:
    """The name under which the number of an application's newest run is kept."""
    return f"\0run of {app}"


@dataclass(slots=True)
class EpochRow:
    epoch: int
    until_ms: int
    """It is remembered so long."""
    owner: str | None = None
    """The user who made it; None: nobody has to log in, or it is older than owners."""


class Epochs:
    """The last epoch that each application has committed in this group: what is not above it was done before."""

    __slots__ = ("_deadlines", "_owned", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, EpochRow] = {}
        # One entry for each row, which may be too early: then it comes back later.
        self._deadlines: list[tuple[int, str]] = []
        # How many rows each user has.
        self._owned: Counter[str | None] = Counter()

    def last(self, app: str) -> int:
        row = self.rows.get(app)
        return -1 if row is None else row.epoch

    def check_room(self, app: str, user: str | None, now_ms: int) -> None:
        """Refuses one more than there can be, of all or of one user: nobody is forgotten before the time."""
        if app in self.rows:
            return
        over = Counter(row.owner for row in self._over(now_ms))
        if user is not None and self._owned[user] - over[user] >= EPOCHS_PER_USER_MAX:
            raise ResourceExhausted(
                f"The user {user!r} has {EPOCHS_PER_USER_MAX} applications whose epochs are remembered, which is the "
                "most of one user. Commit under names that are known already, or wait until some are forgotten."
            )
        if len(self.rows) - over.total() >= EPOCHS_MAX:
            raise ResourceExhausted(
                f"The epochs of {EPOCHS_MAX} applications are remembered, which is the most; wait until some are "
                "forgotten."
            )

    def _over(self, now_ms: int) -> Iterator[EpochRow]:
        """Rows whose time is over, and that go with the next record: those are at the top of the heap."""
        places = [0]
        while places:
            place = places.pop()
            if place < len(self._deadlines) and self._deadlines[place][0] < now_ms:
                row = self.rows[self._deadlines[place][1]]
                if row.until_ms < now_ms:
                    yield row
                places += (2 * place + 1, 2 * place + 2)

    def apply(self, record: dict[str, Any]) -> None:
        """A COMMIT record, which may be a claim too. One that names its run keeps the claim of it alive as well."""
        # A former release noted neither users nor times.
        app, time_ms, user = record["app"], record["time"], record.get("user")
        until_ms = time_ms + 1000 * record.get("seconds", round(EPOCH_MEMORY_SECONDS))
        row = self.rows.get(app)
        if row is None:
            self._add(app, EpochRow(record["epoch"], until_ms, user))
        else:
            row.epoch, row.until_ms = record["epoch"], max(row.until_ms, until_ms)
        claim = self.rows.get(run_of(app)) if record.get("run") is not None else None
        if claim is not None:
            claim.until_ms = max(claim.until_ms, until_ms)
        self._forget(time_ms)

    def _add(self, app: str, row: EpochRow) -> None:
        self.rows[app] = row
        self._owned[row.owner] += 1
        heapq.heappush(self._deadlines, (row.until_ms, app))

    def _forget(self, time_ms: int) -> None:
        """The time of the record decides, so that all members forget alike."""
        while self._deadlines and self._deadlines[0][0] < time_ms:
            app = heapq.heappop(self._deadlines)[1]
            row = self.rows[app]
            if row.until_ms >= time_ms:
                heapq.heappush(self._deadlines, (row.until_ms, app))
                continue
            del self.rows[app]
            self._owned[row.owner] -= 1
            if not self._owned[row.owner]:
                del self._owned[row.owner]

    def fields(self) -> dict[str, Any]:
        """For a snapshot: columns as raw bytes, since there may be many."""
        apps, rows = [app.encode() for app in self.rows], self.rows.values()
        users = dict.fromkeys(row.owner for row in rows if row.owner is not None)
        places: dict[str | None, int] = {user: place for place, user in enumerate(users)}
        return {
            "apps": b"".join(apps), "ends": bytes(array("Q", accumulate(map(len, apps)))),
            "epochs": bytes(array("q", [row.epoch for row in rows])),
            "until": bytes(array("q", [row.until_ms for row in rows])),
            "users": list(places), "owners": bytes(array("q", [places.get(row.owner, -1) for row in rows])),
        }  # fmt: skip

    def load(self, fields: dict[str, Any]) -> None:
        ends, epochs = (array(code, fields[name]) for name, code in (("ends", "Q"), ("epochs", "q")))
        apps = [fields["apps"][start:end].decode() for start, end in pairwise([0, *ends])]
        if "until" in fields:
            untils, owners = (array("q", fields[name]) for name in ("until", "owners"))
        else:
            # A former release noted when each was used last, and no owners.
            memory = 1000 * round(EPOCH_MEMORY_SECONDS)
            untils = array("q", [used + memory for used in array("q", fields["used"])])
            owners = array("q", [-1] * len(apps))
        users = [*fields.get("users", ()), None]
        self.rows, self._deadlines, self._owned = {}, [], Counter()
        for app, epoch, until_ms, owner in zip(apps, epochs, untils, owners, strict=True):
            self._add(app, EpochRow(epoch, until_ms, users[owner]))
