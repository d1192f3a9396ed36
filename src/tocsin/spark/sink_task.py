"""What a task of a write does: its rows become blocks, and these go into stages or straight to their destinations."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from tocsin.client import Connection, Producer, Session
from tocsin.client.patience import asking
from tocsin.client.staging import Stage, StagedColumns, StageReceipt
from tocsin.client.sync_producer import SyncSendHandle
from tocsin.model.destination import DEAD_OF, Destination
from tocsin.model.errors import ResourceExhausted, TimedOut, TocsinError
from tocsin.model.limits import PRODUCER_WINDOW_BATCHES, SINK_DESTINATIONS_MAX
from tocsin.spark.away import SENT, UNSEEN, failing_clearly
from tocsin.spark.columns_from_arrow import Cutter, RowShape
from tocsin.spark.connections import connection_to, give_up_connection
from tocsin.spark.frame_rows import FrameRows
from tocsin.spark.sink_options import EXACTLY_ONCE, SinkOptions
from tocsin.spark.targets import prepare_target
from tocsin.spark.worker import settle_worker


class Epoch(NamedTuple):
    """One write: whose it is, and which of theirs."""

    app: str
    number: int
    repeatable: bool = True
    """Whether it may have been committed before this attempt began."""
    run: int | None = None
    """Of an application that runs take over from each other: which one writes."""


@dataclass(frozen=True)
class TaskReceipts(WriterCommitMessage):
    """What one task has staged, on its way to the driver."""

    epoch: Epoch
    partition: int
    receipts: tuple[StageReceipt, ...]


class Outlet(Protocol):
    """Where the blocks of one task go."""

    def put(self, destination: Destination, columns: StagedColumns) -> None: ...

    def finish(self) -> tuple[StageReceipt, ...]:
        """Returns when everything is durable."""

    def give_up(self) -> None: ...


def write_rows(sink: SinkOptions, shape: RowShape, epoch: Epoch, batches: Iterator[Any]) -> TaskReceipts:
    settle_worker()
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    connection = connection_to(sink.server, patient=True)
    staged = sink.delivery == EXACTLY_ONCE
    with failing_clearly(UNSEEN if staged else SENT), connection.session() as session:
        outlet: Outlet = _Producers(session, sink.server.patience)
        if staged:
            outlet = _Stages(connection, session, sink.stage_seconds, epoch)
        try:
            cutter = Cutter(shape, connection.max_message_bytes, connection.max_block_bytes)
            _put_all(outlet, cutter, partition, batches)
            return TaskReceipts(epoch, partition, outlet.finish())
        except TimedOut:
            # To take back what is under way would be another wait in vain; stages expire.
            give_up_connection(sink.server)
            raise
        except BaseException:
            outlet.give_up()
            raise


def _put_all(outlet: Outlet, cutter: Cutter, partition: int, batches: Iterator[Any]) -> None:
    first = 0
    for batch in batches:
        now = time.time_ns() // 1_000_000
        for destination, columns in cutter.blocks(FrameRows(batch, partition, first), now):
            outlet.put(destination, columns)
        first += batch.num_rows


class _Stages:
    """Exactly once: a stage for each destination. Rows of an epoch that was committed before are read and dropped."""

    def __init__(self, connection: Connection, session: Session, seconds: float, epoch: Epoch) -> None:
        self._connection = connection
        self._session = session
        self._seconds = seconds
        self._epoch = epoch
        self._stages: dict[Destination, Stage | None] = {}
        # Dead messages of each origin are staged in a session of their own: the server wants it so.
        self._others: list[Session] = []

    def put(self, destination: Destination, columns: StagedColumns) -> None:
        if destination not in self._stages:
            self._stages[destination] = self._open(destination)
        stage = self._stages[destination]
        if stage is not None:
            stage.append(columns)

    def _open(self, destination: Destination) -> Stage | None:
        _check_number(len(self._stages))
        epoch = self._epoch
        if epoch.repeatable and self._connection.last_epoch(epoch.app, [destination]) >= epoch.number:
            return None
        session = self._session
        if destination.name.startswith(DEAD_OF):
            session = self._connection.session()
            self._others.append(session)
        return session.stage(destination, seconds=self._seconds)

    def finish(self) -> tuple[StageReceipt, ...]:
        receipts = tuple(stage.close() for stage in self._stages.values() if stage is not None)
        self._close_others()
        return receipts

    def give_up(self) -> None:
        """What can't be dropped now expires."""
        for stage in self._stages.values():
            if stage is not None:
                try:
                    stage.drop()
                except TimedOut:
                    break
                except TocsinError:
                    continue
        self._close_others()

    def _close_others(self) -> None:
        for session in self._others:
            with suppress(TocsinError):
                session.close()


class _Producers:
    """At least once: what a task has sent is there, also when it fails later or is run again."""

    def __init__(self, session: Session, seconds: float) -> None:
        self._session = session
        self._seconds = seconds
        self._producers: dict[Destination, Producer] = {}
        self._under_way: deque[tuple[Destination, SyncSendHandle]] = deque()

    def put(self, destination: Destination, columns: StagedColumns) -> None:
        producer = self._producers.get(destination)
        with asking(destination):
            if producer is None:
                _check_number(len(self._producers))
                prepare_target(self._session, destination)
                producer = self._producers[destination] = self._session.producer(destination)
            self._under_way.append((destination, producer.send_columns(columns)))
        while len(self._under_way) > PRODUCER_WINDOW_BATCHES:
            self._confirm_one()

    def finish(self) -> tuple[StageReceipt, ...]:
        while self._under_way:
            self._confirm_one()
        return ()

    def _confirm_one(self) -> None:
        destination, handle = self._under_way.popleft()
        with asking(destination):
            handle.wait(self._seconds)

    def give_up(self) -> None:
        self._under_way.clear()


def _check_number(destinations: int) -> None:
    if destinations >= SINK_DESTINATIONS_MAX:
        raise ResourceExhausted(
            f"The rows of one partition go to more than {SINK_DESTINATIONS_MAX} destinations; repartition('topic') "
            "brings rows of one topic together."
        )
