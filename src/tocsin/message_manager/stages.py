"""Stages: batches that are stored under an id and seen by nobody until the stage is committed, all at once.

A stage is a sibling of a delayed batch: its batches have no offset, count as no backlog and pin no segment of the
journal. They are rows of typed arrays with the types of the log's, because a commit adds them to the log as they are:
thousands of batches must not hold up everybody else.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from tocsin.message_manager.delay import DelayedBatch, due_ms
from tocsin.message_manager.log import row_flags
from tocsin.model.batch import FLAG_GROUPS, Block
from tocsin.model.limits import EPOCH_MEMORY_SECONDS, EPOCHS_MAX

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


@dataclass(slots=True)
class EpochRow:
    epoch: int
    used_ms: int


class Epochs:
    """The last epoch that each application has committed in this group: what is not above it was done before."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        # In the order of their last use.
        self.rows: dict[str, EpochRow] = {}

    def last(self, app: str) -> int:
        row = self.rows.get(app)
        return -1 if row is None else row.epoch

    def takes(self, app: str, now_ms: int) -> bool:
        """Whether there is room for one more: nobody is forgotten before the time."""
        if app in self.rows or len(self.rows) < EPOCHS_MAX:
            return True
        return self._is_over(next(iter(self.rows.values())), now_ms)

    def apply(self, app: str, epoch: int, time_ms: int) -> None:
        self.rows.pop(app, None)
        self.rows[app] = EpochRow(epoch, time_ms)
        # The time of the record decides, so that all members forget alike.
        while self._is_over(next(iter(self.rows.values())), time_ms):
            del self.rows[next(iter(self.rows))]

    @staticmethod
    def _is_over(row: EpochRow, now_ms: int) -> bool:
        return row.used_ms + 1000 * EPOCH_MEMORY_SECONDS < now_ms

    def fields(self) -> dict[str, bytes]:
        """For a snapshot: columns as raw bytes, since there may be many."""
        apps, rows = [app.encode() for app in self.rows], self.rows.values()
        return {
            "apps": b"".join(apps), "ends": bytes(array("Q", accumulate(map(len, apps)))),
            "epochs": bytes(array("q", [row.epoch for row in rows])),
            "used": bytes(array("q", [row.used_ms for row in rows])),
        }  # fmt: skip

    def load(self, fields: dict[str, bytes]) -> None:
        ends, epochs, used = (
            array(code, fields[name]) for name, code in (("ends", "Q"), ("epochs", "q"), ("used", "q"))
        )
        apps = [fields["apps"][start:end].decode() for start, end in pairwise([0, *ends])]
        self.rows = {app: EpochRow(*row) for app, *row in zip(apps, epochs, used, strict=True)}
