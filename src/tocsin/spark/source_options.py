"""What a reader was asked for. Options have the names of Spark's Kafka source, so that a job moves by few changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tocsin.model.destination import Destination, check_name, parse_destination
from tocsin.model.errors import ConfigError, InvalidDestination
from tocsin.model.limits import RANGE_BUFFER_BYTES, RANGE_BUFFER_BYTES_MAX, RANGE_BUFFER_BYTES_MIN
from tocsin.model.spark_limits import SPARK_HOLD_SECONDS, SPARK_OFFSETS_PER_TRIGGER
from tocsin.spark.option_values import OptionValues
from tocsin.spark.server_options import SERVER_OPTIONS, ServerOptions, read_server
from tocsin.spark.start_options import EARLIEST, LATEST, Where, read_where

SOURCE_OPTIONS = (
    *SERVER_OPTIONS, "subscribe", "subscribePattern", "startingOffsets", "startingTimestamp",
    "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "endingOffsets", "endingTimestamp",
    "endingOffsetsByTimestamp", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
    "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders", "groupId", "holdSeconds", "filter", "pushdown",
    "prefetchBytes", "localFiles",
)  # fmt: skip
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    server: ServerOptions
    names: tuple[str, ...]
    """As the user wrote them: NAME, topic:NAME or queue:NAME; empty when there is a pattern."""
    pattern: str | None
    starting: Where
    ending: Where
    strategy: str
    """What happens to a starting time after the last message: "error" or "latest"."""
    max_offsets: int
    min_offsets: int | None
    max_delay: float
    min_partitions: int | None
    max_records: int | None
    fail_on_data_loss: bool
    include_headers: bool
    group_id: str | None
    hold_seconds: float
    filter: str | None
    pushdown: bool
    prefetch_bytes: int
    local: bool | None
    """Whether tasks read the server's files: None where they can, False never."""

    @property
    def hold(self) -> str | None:
        """The name under which the server knows how far this query is."""
        return None if self.group_id is None else f"spark:{self.group_id}"


def read_source_options(options: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """`streaming` is None when only the schema is asked for, which Spark does before it says."""
    values = OptionValues(options, SOURCE_OPTIONS, "the tocsin source")
    names, pattern = _subscription(values)
    starting = read_where(values, "starting", LATEST if streaming else EARLIEST)
    ending = read_where(values, "ending", LATEST)
    if streaming is not None:
        _check_ends(values, starting, ending, streaming)
    return SourceOptions(
        server=read_server(values),
        names=names,
        pattern=pattern,
        starting=starting,
        ending=ending,
        strategy=values.choice("startingOffsetsByTimestampStrategy", ("error", "latest")),
        max_offsets=values.number("maxOffsetsPerTrigger", SPARK_OFFSETS_PER_TRIGGER),
        min_offsets=values.optional_number("minOffsetsPerTrigger"),
        max_delay=_duration(values, "maxTriggerDelay", 900.0),
        min_partitions=values.optional_number("minPartitions"),
        max_records=values.optional_number("maxRecordsPerPartition"),
        fail_on_data_loss=values.flag("failOnDataLoss", True),
        include_headers=values.flag("includeHeaders", False),
        group_id=values.text("groupId") or None,
        hold_seconds=values.seconds("holdSeconds", None) or SPARK_HOLD_SECONDS,
        filter=values.text("filter") or None,
        pushdown=values.flag("pushdown", False),
        prefetch_bytes=_prefetch(values),
        local=None if values.choice("localFiles", ("auto", "never")) == "auto" else False,
    )


def _subscription(values: OptionValues) -> tuple[tuple[str, ...], str | None]:
    named, pattern = values.text("subscribe"), values.text("subscribePattern")
    if (named is None) == (pattern is None):
        raise ConfigError("Set one of the options subscribe (names, by comma) and subscribePattern.")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"The option subscribePattern is no regular expression: {error}.") from error
        return (), pattern
    assert named is not None
    names = tuple(name.strip() for name in named.split(",") if name.strip())
    if not names:
        raise ConfigError("The option subscribe names no topic.")
    for name in names:
        plain_name(name)
    if len({plain_name(name) for name in names}) < len(names):
        raise ConfigError(f"The option subscribe names a destination twice: {named}.")
    return names, None


def plain_name(text: str) -> str:
    """The name in NAME, topic:NAME or queue:NAME."""
    given = given_destination(text)
    return text if given is None else given.name


def given_destination(text: str) -> Destination | None:
    """The destination in topic:NAME or queue:NAME; None for a bare name, whose kind the server knows."""
    if not text.startswith(("topic:", "queue:")):
        check_name(text)
        return None
    try:
        return parse_destination(text)
    except InvalidDestination as error:
        raise ConfigError(f"The option subscribe: {error}") from error


def _check_ends(values: OptionValues, starting: Where, ending: Where, streaming: bool) -> None:
    if streaming:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if values.has(name):
                raise ConfigError(f"A streaming query has no end, so the option {name} is for spark.read only.")
    elif starting == LATEST:
        raise ConfigError("startingOffsets=latest is for spark.readStream: a batch from the latest offset is empty.")
    if ending == EARLIEST:
        raise ConfigError("endingOffsets is latest or JSON; up to the earliest offset there is nothing.")


def _prefetch(values: OptionValues) -> int:
    found = values.number("prefetchBytes", RANGE_BUFFER_BYTES, RANGE_BUFFER_BYTES_MIN)
    if found > RANGE_BUFFER_BYTES_MAX:
        raise ConfigError(f"The option prefetchBytes is a whole number up to {RANGE_BUFFER_BYTES_MAX}, not {found}.")
    return found


def _duration(values: OptionValues, name: str, default: float) -> float:
    """Spark's way of writing it: 15m, 30s, 500ms."""
    text = values.text(name)
    if text is None:
        return default
    found = re.fullmatch(r"\s*(\d+)\s*(ms|s|m|h)\s*", text)
    if found is None:
        raise ConfigError(f"The option {name} is a duration such as 500ms, 30s or 15m, not {text!r}.")
    return int(found[1]) * _UNITS[found[2]]
