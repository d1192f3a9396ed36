"""What tests of the source do again and again: fill topics, read them with Spark, run a stream to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tocsin


def fill(connection: tocsin.Connection, name: str, count: int, *, start: int = 0, **options: Any) -> None:
    """Messages "0", "1", ... in a retained topic, with keys k0, k1, ..."""
    connection.create_destination(name, "topic", retained=True)
    with connection.session() as session:
        producer = session.producer(session.topic(name))
        for number in range(start, start + count):
            producer.send_nowait(str(number), key=f"k{number}", **options)
        producer.flush()


def fill_queue(connection: tocsin.Connection, name: str, count: int, *, start: int = 0) -> None:
    with connection.session() as session:
        producer = session.producer(session.queue(name))
        for number in range(start, start + count):
            producer.send_nowait(str(number))
        producer.flush()


def source(reader: Any, url: str, **options: Any) -> Any:
    """spark.read or spark.readStream with the format and its options."""
    found = reader.format("tocsin").option("url", url)
    for name, value in options.items():
        found = found.option(name, value)
    return found


def numbers(table: Any) -> list[int]:
    """What `fill` has sent, as read, in order."""
    rows = table.selectExpr("topic", "offset", "cast(cast(value as string) as int) as number").collect()
    return [row.number for row in sorted(rows, key=lambda row: (row.topic, row.offset))]


class Stream:
    """A streaming query that writes Parquet: run to its end, it can be run again from its checkpoint."""

    def __init__(self, spark: Any, url: str, folder: Path, **options: Any) -> None:
        self._spark = spark
        self.url = url
        self._options = options
        self.checkpoint = folder / "checkpoint"
        self.output = folder / "output"

    def run(self, change: Callable[[Any], Any] = lambda table: table, **more: Any) -> Any:
        """Reads what is there; returns the query, which has ended."""
        query = self._writer(change, more).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def start(self, **more: Any) -> Any:
        """Reads on and on."""
        return self._writer(lambda table: table, more).start()

    def _writer(self, change: Callable[[Any], Any], more: dict[str, Any]) -> Any:
        table = change(source(self._spark.readStream, self.url, **self._options, **more).load())
        places = {"checkpointLocation": str(self.checkpoint), "path": str(self.output)}
        return table.writeStream.format("parquet").options(**places)

    def rows(self) -> Any:
        return self._spark.read.parquet(str(self.output))

    def numbers(self) -> list[int]:
        return numbers(self.rows())


def batches(query: Any) -> Sequence[int]:
    """The rows of each batch that had some."""
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
