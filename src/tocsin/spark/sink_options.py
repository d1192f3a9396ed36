"""The options of the sink, read and checked before any task runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from tocsin.model.destination import Destination, Kind, check_name
from tocsin.model.errors import ConfigError
from tocsin.model.limits import APP_NAME_BYTES_MAX, STAGE_SECONDS_DEFAULT
from tocsin.spark.columns_from_arrow import destination_named
from tocsin.spark.option_values import OptionValues
from tocsin.spark.server_options import SERVER_OPTIONS, ServerOptions, read_server

EXACTLY_ONCE = "exactly_once"
AT_LEAST_ONCE = "at_least_once"
OPTIONS = ("topic", "queue", "delivery", "stageTtl", "txnAppId", "txnVersion", "txnRun")
OF_SPARK = (
    "checkpointLocation",
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
)
"""Options that a streaming query hands to its sink and that are meant for Spark itself."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    server: ServerOptions
    destination: Destination | None
    """Where all rows go; None when a column says it."""
    delivery: str
    stage_seconds: float
    transaction: tuple[str, int] | None
    """Who writes, and which of its writes this is, when the job says so itself."""
    run: int | None = None
    """Which run of the job this is, when a newer one is to take over from it."""


def read_sink(options: Mapping[str, str], streaming: bool) -> SinkOptions:
    values = OptionValues(options, known=(*SERVER_OPTIONS, *OPTIONS, *OF_SPARK), what="the sink")
    delivery = values.choice("delivery", (EXACTLY_ONCE, AT_LEAST_ONCE))
    if streaming and delivery == EXACTLY_ONCE and values.flag("asyncProgressTrackingEnabled", False):
        raise ConfigError(
            "With asynchronous progress tracking an epoch may come again with other rows, so it can't be written "
            "exactly once: switch it off, or set option('delivery', 'at_least_once')."
        )
    sink = SinkOptions(
        read_server(values),
        _destination(values),
        delivery,
        values.seconds("stageTtl", None) or STAGE_SECONDS_DEFAULT,
        _transaction(values, streaming),
        values.optional_number("txnRun", least=0),
    )
    if sink.run is not None and (sink.transaction is None or sink.destination is None):
        raise ConfigError(
            "The option txnRun is for writes with txnAppId and txnVersion to one topic or queue, which an option names."
        )
    return sink


def _destination(values: OptionValues) -> Destination | None:
    topic, queue = values.text("topic"), values.text("queue")
    if topic is not None and queue is not None:
        raise ConfigError("The options topic and queue are both set; rows go to one of them.")
    if queue is not None:
        return Destination(Kind.QUEUE, check_name(queue.removeprefix("queue:"), "queue"))
    return None if topic is None else destination_named(topic)


def application(app: str, destination: Destination | None) -> str:
    """Who writes, as the server keeps it. As with tables, a history belongs to a target: one job may write the same
    version to several.
    """
    whole = f"{app}@{destination or '*'}"
    if len(whole.encode()) <= APP_NAME_BYTES_MAX:
        return whole
    return f"sha256:{hashlib.sha256(whole.encode()).hexdigest()}"


def _transaction(values: OptionValues, streaming: bool) -> tuple[str, int] | None:
    app, version = values.text("txnAppId"), values.optional_number("txnVersion", least=0)
    if app is None and version is None:
        return None
    if streaming:
        raise ConfigError(
            "The options txnAppId and txnVersion are for batch writes and foreachBatch; a streaming query has an id "
            "and epochs of its own."
        )
    if app is None or version is None:
        raise ConfigError(
            "The options txnAppId and txnVersion belong together: who writes, and which of its writes this is."
        )
    return app, version
