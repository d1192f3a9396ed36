"""From where a read begins and ends to offsets, and what becomes of those that are not there any more."""

from __future__ import annotations

from datetime import UTC, datetime

from tocsin.client.reading import Offsets
from tocsin.client.sync import Connection
from tocsin.model.destination import Destination
from tocsin.model.errors import ConfigError, DataLost
from tocsin.spark.source_options import SourceOptions
from tocsin.spark.start_options import EARLIEST_NUMBER, LATEST_NUMBER, Where


def start_offset(connection: Connection, where: Destination, known: Offsets, options: SourceOptions) -> int:
    """The first offset that a new query reads of a destination."""
    starting = options.starting
    time = starting.time_of(where.name)
    if time is not None:
        return _offset_at(connection, where, known, time, options.strategy)
    _check_identity(starting, where, known)
    offset = _by_word_or_number(starting, where, known, known.first)
    if offset < known.first:
        if options.fail_on_data_loss:
            raise aged_out(where, offset, known.first)
        return known.first
    if offset > known.end:
        raise ConfigError(f"startingOffsets has {offset} for {where}, which ends at {known.end}.")
    return offset


def end_offset(connection: Connection, where: Destination, known: Offsets, options: SourceOptions) -> int:
    """One past the last offset that a batch reads."""
    time = options.ending.time_of(where.name)
    if time is not None:
        return connection.offset_at(where, _moment(time), identity=known.identity)
    _check_identity(options.ending, where, known)
    offset = _by_word_or_number(options.ending, where, known, known.end)
    if offset > known.end:
        raise ConfigError(f"endingOffsets has {offset} for {where}, which ends at {known.end}.")
    return offset


def _check_identity(asked: Where, where: Destination, known: Offsets) -> None:
    """Whether or not data loss is an error: to read other messages than those that were meant always is."""
    wanted = asked.identity_of(where.name)
    if wanted is not None and wanted != known.identity:
        raise DataLost(
            f"{where} is not the one that the given offsets are of: it was deleted and made again, or the server that "
            "was asked belongs to another cluster than the one before. Name servers of one cluster only in a URL."
        )


def _by_word_or_number(asked: Where, where: Destination, known: Offsets, default: int) -> int:
    if asked.word:
        return known.first if asked.word == "earliest" else known.end
    number = asked.offset_of(where.name)
    if number is None:
        # With offsets or times for some, the others are read from end to end.
        return default
    return {EARLIEST_NUMBER: known.first, LATEST_NUMBER: known.end}.get(number, number)


def _offset_at(connection: Connection, where: Destination, known: Offsets, time: int, strategy: str) -> int:
    offset = connection.offset_at(where, _moment(time), identity=known.identity)
    if offset >= known.end and strategy == "error":
        raise ConfigError(
            f"{where} has no message from {_moment(time).isoformat()} on; set startingOffsetsByTimestampStrategy to "
            "latest to begin behind the last one."
        )
    return offset


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


_GO_ON = "Set failOnDataLoss to false to go on with what there is"


def aged_out(where: Destination | str, offset: int, first: int) -> DataLost:
    return DataLost(
        f"{where} has lost the messages from offset {offset} to {first}, which this query has not read: retention has "
        f"removed them. {_GO_ON}; with the option groupId, retention waits for the query."
    )


def set_back(where: Destination | str, offset: int, end: int) -> DataLost:
    return DataLost(
        f"{where} ends at offset {end}, but this query has read it up to {offset}: the server has lost messages, "
        f"or goes on from an older copy of its data, and gives their offsets to others. {_GO_ON}: from offset {end} on."
    )


def made_again(name: str) -> DataLost:
    return DataLost(
        f"{name!r} was deleted and made again since this query read it last, or the server belongs to another cluster: "
        f"what it had not read is gone. {_GO_ON}, or begin a new query with another checkpointLocation."
    )


def gone(name: str) -> DataLost:
    return DataLost(f"{name!r}, which this query reads, does not exist any more. {_GO_ON}.")
