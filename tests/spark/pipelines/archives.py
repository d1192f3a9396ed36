"""Commits and files of made-up archives."""

from __future__ import annotations

from tocsin.spark.pipelines.archive_log import Commit, DataFile, TopicRange
from tocsin.spark.pipelines.archive_store import final_path

FOLDER = "topic=prices/date=2026-11-15"


def topic_range(first: int, end: int, *, identity: str = "a") -> TopicRange:
    return TopicRange("prices", identity, first, end, end - first)


def data_file(number: int, first: int, end: int, size: int = 10) -> DataFile:
    staged = f"_staging/s{number}/{FOLDER}/part-0.snappy.parquet"
    return DataFile(final_path(FOLDER, number, 0), staged, "prices", "a", end - first, size, first, end)


def append(number: int, first: int, end: int, *, size: int = 10, query: str = "query") -> Commit:
    return Commit(
        number=number,
        kind="append",
        run="run",
        time=number,
        query=query,
        epoch=number,
        ranges=(topic_range(first, end),),
        files=(data_file(number, first, end, size),),
    )
