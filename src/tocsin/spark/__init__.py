"""The Spark data source and the ready pipelines, built on the client library and PySpark.

session, register, history, submit, warm_up, close_connections     what programs call

spark_session      settings that suit this source
data_source        the format "tocsin"
direct_plans       rows take a short way between Spark and Python, in Java
option_values      reading options; server_options, source_options, start_options are the options themselves
schema             the columns that a message can be read as
batch_source       spark.read; stream_source is spark.readStream
subscription       which destinations; bounds: from which offset to which
stream_planning    a streaming query's batches; admission, holding, draining, offsets are its parts
pushdown           Spark's filters as selectors; selector_check refuses a wrong one early
partitioning       which task reads what; cores: how many there can be
range_reading      what a task does; connections: what it keeps from task to task
worker             the process that tasks run in
away               what a query says when nobody answers
arrow_blocks       blocks of messages as record batches; arrow_columns, arrow_properties
sink               frame.write; stream_sink is frame.writeStream; sink_options, sink_schema: what they are told
sink_task          what a task of a write does; targets: what it writes to
columns_from_arrow record batches as columns of blocks; frame_rows, row_checks, block_columns, property_columns
java               the Java to run on; class_cache and warming let it start fast
decode             values as columns; avro, protobuf, row_decoding are its parts, bad_rows what does not fit
packing            shipping to executors where tocsin is not installed
pipelines          ready pipelines, and how they are run
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocsin.spark.connections import close_connections
    from tocsin.spark.pipelines.history import history
    from tocsin.spark.pipelines.user_file import submit
    from tocsin.spark.spark_session import register, session
    from tocsin.spark.warming import warm_up

__all__ = ["close_connections", "history", "register", "session", "submit", "warm_up"]

# Imported when first used: an executor that reads needs nothing of what starts a session.
_PLACES = {
    "close_connections": "tocsin.spark.connections",
    "history": "tocsin.spark.pipelines.history",
    "register": "tocsin.spark.spark_session",
    "session": "tocsin.spark.spark_session",
    "submit": "tocsin.spark.pipelines.user_file",
    "warm_up": "tocsin.spark.warming",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'tocsin.spark' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
