"""Stages: messages that are stored durably and seen by nobody until they are committed, all of them at once.

A stage is filled with whole columns and not with messages, because who fills one has very many of them. What several
stages hold is published by one `connection.commit_stages(app, epoch, receipts)`: once for each epoch of an application,
however often it is asked for.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tocsin.client import operations
from tocsin.client.batching import Batch, BatchKey, Stamp
from tocsin.client.core import Core
from tocsin.client.core_publishing import Lane
from tocsin.client.core_sessions import SessionState
from tocsin.client.headers import as_destination
from tocsin.client.patience import asking
from tocsin.client.pending import Steps
from tocsin.model.batch import (
    FLAG_GROUPS,
    BatchHeader,
    BodyKind,
    Column,
    ColumnData,
    DeliveryMode,
    encode_block,
)
from tocsin.model.destination import DEAD_OF, Destination, stored_name
from tocsin.model.errors import IllegalState, MessageFormatError, MessageTooLarge, TocsinError
from tocsin.model.identity import NO_ID
from tocsin.model.limits import (
    BATCH_MESSAGES_MAX,
    BLOCK_BYTES_MAX,
    CLIENT_WAITING_BYTES_MAX,
    STAGE_SECONDS_DEFAULT,
    STAGE_WAITING_BYTES_MAX,
)

if TYPE_CHECKING:
    from tocsin.client.sync_line import Line

_HEADERS_BYTES = 4_096
"""More than the header, the name and the directory of a block usually take."""


@dataclass(slots=True)
class StagedColumns:
    """The messages of one block, column by column. Rows are in the same order in all of them."""

    count: int
    body_kind: BodyKind
    columns: Sequence[ColumnData]
    priority: int = 4
    delivery_time: int = 0
    """Milliseconds since 1970, later than `base_timestamp` by the delay; 0: as soon as the messages are published."""
    base_timestamp: int = 0
    """Milliseconds since 1970; 0: now."""
    earliest_expiry: int = 0
    """The lowest value of an expiry column that is not 0."""

    @property
    def size(self) -> int:
        return sum(len(column.data) for column in self.columns)


@dataclass(frozen=True, slots=True)
class StageReceipt:
    """What is needed to commit or drop a stage, from anywhere: it may travel to another process."""

    destination: Destination
    stage: bytes
    messages: int
    bytes: int = field(default=0, compare=False)


class ColumnsBatch(Batch):
    """A batch that was made as a whole; it is encoded when it is sent, as any other."""

    __slots__ = ("_content", "_stage")

    def __init__(self, content: StagedColumns, stage: bytes, time: int) -> None:
        key = BatchKey(content.body_kind, DeliveryMode.PERSISTENT, content.priority, content.delivery_time, 0, True)
        super().__init__(key)
        self._content: StagedColumns | None = content
        self._stage = stage
        self.times = [content.base_timestamp or time]
        self.count = content.count
        self.size = content.size
        self.closed = True

    def seal(self, destination: Destination, stamp: Stamp, first_sequence: int, unconfirmed_from: int) -> bytes:
        content = self._content
        assert content is not None, "a batch is sealed once"
        header = BatchHeader(
            destination=stored_name(destination.name),
            destination_kind=destination.kind,
            count=content.count,
            flags=FLAG_GROUPS if any(each.column == Column.GROUP_ID for each in content.columns) else 0,
            body_kind=content.body_kind,
            priority=content.priority,
            connection_id=stamp.connection_id,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            first_sequence=first_sequence,
            unconfirmed_from=unconfirmed_from,
            base_timestamp=self.times[0],
            delivery_time=content.delivery_time,
            earliest_expiry=content.earliest_expiry,
            stage=self._stage,
        )
        self.block = encode_block(header, list(content.columns))
        self._content = None
        self.destination = destination
        self.first_sequence = first_sequence
        self.stamp = stamp
        return self.block


def check_content(content: StagedColumns, message_bytes_max: int, block_bytes_max: int = BLOCK_BYTES_MAX) -> None:
    """What the server would refuse is refused here, before it fails everything behind it."""
    if not 0 < content.count <= BATCH_MESSAGES_MAX:
        raise MessageFormatError(f"A block has 1 to {BATCH_MESSAGES_MAX} messages, not {content.count}; cut it.")
    size = content.size + 8 * content.count + _HEADERS_BYTES
    if size > block_bytes_max:
        raise MessageTooLarge(
            f"A block of about {size:,} bytes is over the {block_bytes_max:,} that the server takes, which its setting "
            "segment_bytes bounds; cut it."
        )
    if size <= message_bytes_max:
        return
    for column in content.columns:
        if column.column == Column.BODY and column.offsets is not None:
            ends = list(column.offsets)
            largest = max(end - start for start, end in zip(ends, ends[1:], strict=False))  # noqa: RUF007
            if largest > message_bytes_max:
                raise MessageTooLarge(
                    f"A message has {largest:,} bytes; {message_bytes_max:,} is the most that the server takes."
                )


class StageBase:
    """One stage, everything but the waiting."""

    def __init__(self, session: SessionState, destination: Destination, seconds: float, identity: bytes) -> None:
        self._state = session
        self._core = session.core
        self._port = session.core.port
        self.destination = destination
        self.id = identity
        self._seconds = max(1, round(seconds))
        self._lane: Lane | None = None
        self.owner: object = None
        """The session, kept as long as there is somebody who has the stage."""
        self._unconfirmed: deque[Batch] = deque()
        self._closed = False
        self.messages = 0
        self.bytes = 0

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalState("The stage is closed; open another one with session.stage().")
        self._state.check_open()

    def _open_steps(self) -> Steps[None]:
        """The destination exists afterwards, and the stage with it."""
        with self._port.lock:
            self._state.check_open()
            self._check_alone()
        # The stage first: a topic that it makes is retained, and one that a lane makes is not.
        fields = {"destination": str(self.destination), "stage": self.id, "seconds": self._seconds}
        yield from operations.request(self._core, 0, "stage.open", fields, self._undo)
        try:
            with self._port.lock:
                self._state.check_open()
                lane = self._lane = self._state.lane(self.destination)
                lane.users += 1
                self._port.flush()
            with asking(self.destination):
                yield lane.opened
        except BaseException:
            with self._port.lock:
                self._leave()
                self._undo({})
                self._port.flush()
            raise

    def _undo(self, _reply: object) -> None:
        """Nobody waits for it any more; call with the lock held."""
        dropped = [_named(StageReceipt(self.destination, self.id, 0))]
        self._core.request(0, "stage.drop", {"stages": dropped})

    def _check_alone(self) -> None:
        """Dead messages of several origins may be in one place, where sequences of one session must be one row."""
        dead = [each for each in self._state.lanes if each.name.startswith(DEAD_OF)]
        if dead and self.destination.name.startswith(DEAD_OF) and dead != [self.destination]:
            raise IllegalState("A session reports dead messages of one destination only; open another session.")

    def _append_steps(self, content: StagedColumns) -> Steps[None]:
        """Puts a block on its way, after waiting for room; what was refused meanwhile is told here."""
        check_content(content, self._core.max_message_bytes, self._core.max_block_bytes)
        batch = ColumnsBatch(content, self.id, self._port.wall_ms())
        while True:
            with self._port.lock:
                self._check_open()
                self._take_confirmed()
                lane = self._state.lane(self.destination)
                # Who fills a stage makes rows all the time, and must not stand still while a commit is synced.
                lane.waiting_max = max(CLIENT_WAITING_BYTES_MAX, STAGE_WAITING_BYTES_MAX // len(self._state.lanes))
                room = lane.when_room()
                if room is None:
                    lane.add_batch(batch)
                    self._unconfirmed.append(batch)
                    self.messages += batch.count
                    self.bytes += batch.size
                self._port.flush()
            if room is None:
                return
            with asking(self.destination):
                yield room

    def _take_confirmed(self) -> None:
        while self._unconfirmed and self._unconfirmed[0].pending.done:
            self._unconfirmed.popleft().pending.get()

    def _close_steps(self) -> Steps[StageReceipt]:
        while self._unconfirmed:
            with asking(self.destination):
                yield self._unconfirmed[0].pending
            self._unconfirmed.popleft().pending.get()
        self._leave()
        return StageReceipt(self.destination, self.id, self.messages, self.bytes)

    def _drop_steps(self) -> Steps[None]:
        """What is on its way is waited for, so that none of it comes after the stage is gone."""
        while self._unconfirmed:
            batch = self._unconfirmed[0]
            try:
                yield batch.pending
            except TocsinError:
                # Refused or lost: there is less to drop. A wait that was cut short is the caller's to know.
                if not batch.pending.done:
                    raise
            self._unconfirmed.popleft()
        self._leave()
        yield from drop_steps(self._core, [StageReceipt(self.destination, self.id, 0)])

    def _leave(self) -> None:
        if not self._closed:
            self._closed = True
            if self._lane is not None:
                self._lane.users -= 1


class Stage(StageBase):
    """A stage of a synchronous session. Use it from one thread at a time."""

    def __init__(self, session: SessionState, line: Line, destination: Destination, seconds: float) -> None:
        super().__init__(session, destination, seconds, secrets.token_bytes(len(NO_ID)))
        self._line = line

    def append(self, content: StagedColumns) -> None:
        """Puts a block on its way; waits only while the server holds this session back. Many are under way at a time.

        Raises why an earlier block was refused. Then the stage is of no use any more: drop it.
        """
        self._line.run(self._append_steps(content))

    def close(self, timeout: float | None = None) -> StageReceipt:
        """Waits until everything is stored durably. The messages stay unseen until the receipt is committed."""
        return self._line.run(self._close_steps(), timeout)

    def drop(self) -> None:
        """Gives up all of it."""
        self._line.run(self._drop_steps())


def open_stage(
    session: SessionState, line: Line, destination: Destination, seconds: float = STAGE_SECONDS_DEFAULT
) -> Stage:
    stage = Stage(session, line, destination, seconds)
    line.run(stage._open_steps())
    return stage


# ---- what a connection does with receipts


def commit_steps(
    core: Core, app: str, epoch: int, receipts: Iterable[StageReceipt], run: int | None = None,
    seconds: float | None = None,
) -> Steps[bool]:  # fmt: skip
    stages = [{**_named(each), "messages": each.messages} for each in receipts]
    fields: dict[str, Any] = {"app": app, "epoch": epoch, "stages": stages}
    if run is not None:
        fields["run"] = run
    if seconds is not None:
        fields["seconds"] = max(1, round(seconds))
    reply = yield from operations.request(core, 0, "stage.commit", fields)
    return bool(reply["committed"])


def take_over_steps(core: Core, app: str, destination: Destination | str) -> Steps[int]:
    fields = {"app": app, "destination": str(as_destination(destination))}
    reply = yield from operations.request(core, 0, "stage.claim", fields)
    return int(reply["run"])


def drop_steps(core: Core, receipts: Iterable[StageReceipt]) -> Steps[int]:
    stages = [_named(each) for each in receipts]
    if not stages:
        return 0
    reply = yield from operations.request(core, 0, "stage.drop", {"stages": stages})
    return int(reply["dropped"])


def last_steps(core: Core, app: str, destinations: Iterable[Destination | str]) -> Steps[int]:
    texts = [str(as_destination(each)) for each in destinations]
    reply = yield from operations.request(core, 0, "stage.last", {"app": app, "destinations": texts})
    return int(reply["epoch"])


def _named(receipt: StageReceipt) -> dict[str, Any]:
    return {"destination": str(receipt.destination), "stage": receipt.stage}
