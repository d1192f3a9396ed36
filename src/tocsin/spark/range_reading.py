"""What a task does: get its ranges, from the server or out of its files, and hand them to Spark as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tocsin.client.core_reading import RangeBlock
from tocsin.client.sync_session import Session
from tocsin.model.destination import parse_destination
from tocsin.model.errors import ConnectionFailed, TimedOut
from tocsin.model.limits import RANGE_BUFFER_BYTES
from tocsin.spark.arrow_blocks import record_batches
from tocsin.spark.away import GO_ON
from tocsin.spark.connections import connection_to, give_up_connection
from tocsin.spark.partitioning import Slice
from tocsin.spark.schema import Wanted, stored_columns, wanted_columns
from tocsin.spark.server_options import ServerOptions
from tocsin.spark.worker import settle_worker


class RangePartition(InputPartition):
    """The slices of one task."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self.slices = tuple(slices)


@dataclass(frozen=True, slots=True)
class RangeReading:
    """All that a task must know. It is pickled to the executors, so it holds no connection."""

    server: ServerOptions
    schema: StructType
    selector: str | None
    skip_removed: bool
    prefetch_bytes: int = RANGE_BUFFER_BYTES
    local: bool | None = None
    """Whether the server's files are read: None where they can be, False never."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        settle_worker()
        # Spark makes up an empty partition when there is nothing to read.
        if isinstance(partition, RangePartition):
            yield from self.convert(partition.slices)

    def convert(self, slices: Sequence[Slice]) -> Iterator[Any]:
        """Record batches of the slices, one after another."""
        wanted = wanted_columns(self.schema)
        arrow_schema = to_arrow_schema(self.schema, timezone="UTC")
        for each, blocks in self.blocks(slices, wanted):
            yield from record_batches(blocks, parse_destination(each.destination).name, wanted, arrow_schema)

    def blocks(self, slices: Sequence[Slice], wanted: Sequence[Wanted]) -> Iterator[tuple[Slice, Iterator[RangeBlock]]]:
        """The blocks of each slice as they come; the connection's thread fetches ahead while Spark takes them."""
        columns = stored_columns(tuple(wanted))
        connection = connection_to(self.server, patient=True)
        with connection.session() as session:
            for each in slices:
                yield each, self._fetched(session, each, columns)

    def _fetched(self, session: Session, found: Slice, columns: list[str]) -> Iterator[RangeBlock]:
        try:
            if found.browse:
                yield from session.browse_blocks(found.destination, selector=self.selector)
            else:
                yield from session.read_range(
                    found.destination,
                    found.start,
                    found.end,
                    columns=columns,
                    selector=self.selector,
                    drain=None if found.drain is None else (found.drain, found.take),
                    identity=found.identity,
                    skip_removed=self.skip_removed,
                    prefetch_bytes=self.prefetch_bytes,
                    local=self.local,
                )
        except ConnectionFailed as error:
            raise ConnectionFailed(
                f"{self.server} went away while {found.destination} was read from offset {found.start} to {found.end}, "
                f"and did not come back in time: {error} {GO_ON}"
            ) from error
        except TimedOut as error:
            give_up_connection(self.server)
            raise TimedOut(f"{error} {GO_ON}") from error
