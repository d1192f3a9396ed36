"""The format "tocsin": what Spark asks for its schema, readers and writers.

Spark makes this object anew in each of its planning processes, so it opens nothing; readers and writers connect when
they are asked for something. What each of them needs is imported when it is asked for: most of these processes need
only a part, and Spark waits for all of them.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

FORMAT = "tocsin"


class TocsinDataSource(DataSource):
    """spark.read, readStream, write and writeStream.format("tocsin")."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Without a schema of the user's: the seven columns of Kafka's source, and headers when asked for."""
        from tocsin.spark.schema import default_schema
        from tocsin.spark.source_options import read_source_options

        return default_schema(read_source_options(self.options, streaming=None).include_headers)

    def reader(self, schema: StructType) -> Any:
        from tocsin.spark.batch_source import batch_reader
        from tocsin.spark.source_options import read_source_options

        return batch_reader(read_source_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802  Spark's name
        from tocsin.spark.source_options import read_source_options
        from tocsin.spark.stream_source import StreamReader

        return StreamReader(read_source_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from tocsin.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802  Spark's name
        from tocsin.spark.stream_sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
