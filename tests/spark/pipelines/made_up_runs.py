"""Runs of an archive without a server: the checkpoint is written as Spark would have written it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.pipelines.tables import messages

from tocsin.spark.pipelines.archive import ArchiveOptions, ArchiveWriter
from tocsin.spark.pipelines.archive_folder import LocalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Run:
    def __init__(self, spark: SparkSession, path: Path, *, query: str = "q1", **options: bool) -> None:
        self.spark = spark
        self.folder = LocalFolder(path / "lake")
        self.checkpoint = LocalFolder(path / f"checkpoint-{query}")
        self.checkpoint.create_once("metadata", json.dumps({"id": query}).encode())
        given = ArchiveOptions(to=str(path / "lake"), topics=("prices",), **options)  # type: ignore[arg-type]
        self.writer = ArchiveWriter(self.folder, self.checkpoint, given)

    def plan(self, epoch: int, end: int, identity: str = "a") -> None:
        offset = {"d": {"prices": {"0": end, "id": identity}}, "v": 1}
        self.checkpoint.create_once(f"offsets/{epoch}", f"v1\n{{}}\n{json.dumps(offset)}".encode())

    def epoch(self, epoch: int, first: int, end: int) -> None:
        self.plan(epoch, end)
        self.writer.take_epoch(messages(self.spark, first, end), epoch)
