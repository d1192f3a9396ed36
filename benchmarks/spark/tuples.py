"""The same source, but handing its rows to Spark one by one as tuples: what the Arrow batches save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tocsin.spark.batch_source import BatchReader
from tocsin.spark.data_source import TocsinDataSource
from tocsin.spark.source_options import read_source_options

FORMAT = "tocsin_tuples"


class TupleReader(BatchReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            # Column by column into Python values, then a row from each: the quickest way to tuples.
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class TupleDataSource(TocsinDataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def reader(self, schema: StructType) -> TupleReader:
        return TupleReader(read_source_options(self.options, streaming=False), schema)
