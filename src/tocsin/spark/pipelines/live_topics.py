"""A live topic for pipelines: its offsets, and a range of it as a table."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tocsin.model.errors import ConfigError
from tocsin.spark.pipelines.definition import PipelineOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tocsin.client.reading import Offsets
    from tocsin.client.sync import Connection


def connection_of(options: PipelineOptions) -> Connection:
    """Kept by the process for the next one who asks; not to be closed."""
    from tocsin.spark.connections import connection_to
    from tocsin.spark.option_values import OptionValues
    from tocsin.spark.server_options import SERVER_OPTIONS, read_server

    return connection_to(read_server(OptionValues(options.source_options(), SERVER_OPTIONS, "a pipeline")))


def offsets_of(options: PipelineOptions, topic: str) -> Offsets:
    """Of a topic that keeps its messages; any other cannot be read by offset."""
    found = connection_of(options).offsets(f"topic:{topic}")
    if not found.retained:
        raise ConfigError(f"The topic {topic} is not retained, so its messages cannot be read by offset.")
    return found


def read_topic(
    spark: SparkSession,
    options: PipelineOptions,
    topic: str,
    identity: str,
    first: int,
    end: int,
    *,
    schema: str | None = None,
    headers: bool = False,
    fail_on_data_loss: bool = True,
) -> DataFrame:
    """The offsets [first, end) of the topic with an identity, with all columns or those of the schema."""
    import tocsin.spark

    tocsin.spark.register(spark)
    reader = spark.read.format("tocsin").options(**options.source_options()).option("subscribe", f"topic:{topic}")
    reader = reader.option("startingOffsets", json.dumps({topic: {"0": first, "id": identity}}))
    reader = reader.option("endingOffsets", json.dumps({topic: {"0": end, "id": identity}}))
    reader = reader.option("failOnDataLoss", str(fail_on_data_loss).lower())
    if schema is not None:
        return reader.schema(schema).load()
    return reader.option("includeHeaders", str(headers).lower()).load()


def moment(text: str) -> datetime:
    """A time as people write it, in UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no time; write it as 2026-11-15T08:30:00, with Z or an offset.") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
