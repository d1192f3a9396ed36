"""Rows of an archive: to staged Parquet files, counted by their footers, and from the files back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tocsin.spark.pipelines.archive_log import ArchiveState, DataFile
from tocsin.spark.pipelines.archive_store import ArchiveStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPRESSION = "snappy"
PARTITIONS = ["topic", "date"]


def dated(rows: DataFrame) -> DataFrame:
    """With the day of the message's timestamp in UTC, whatever the session's time zone."""
    from pyspark.sql import functions as f

    days = f.floor(f.unix_seconds(f.col("timestamp")) / f.lit(86_400)).cast("int")
    return rows.withColumn("date", f.date_add(f.lit("1970-01-01").cast("date"), days))


def stage(rows: DataFrame, store: ArchiveStore, staging: str) -> list[DataFile]:
    """Writes dated rows into a staging folder, and says what is in each file. Its path has the folder it goes to; which
    topic of that name it is the caller knows.
    """
    ordered = rows.sortWithinPartitions(*PARTITIONS, "offset")
    writer = ordered.write.mode("overwrite").option("compression", COMPRESSION).partitionBy(*PARTITIONS)
    writer.parquet(f"{store.folder.root}/{staging}")
    return staged_files(rows.sparkSession, store, staging)


def staged_files(spark: SparkSession, store: ArchiveStore, staging: str) -> list[DataFile]:
    found = []
    for each in store.folder.files(staging):
        inside = each.name.removeprefix(f"{staging}/")
        if not inside.endswith(".parquet") or inside.startswith("_"):
            continue
        rows, first, end = footer(spark, f"{store.folder.root}/{each.name}")
        topic = unescaped(inside.partition("/")[0].partition("=")[2])
        found.append(DataFile(inside, each.name, topic, "", rows, each.bytes, first, end))
    # The order of offsets is the order of the names that the files get.
    found.sort(key=lambda each: (each.topic, each.first, each.path))
    store.folder.sync(each.staged for each in found)
    return found


def footer(spark: SparkSession, path: str) -> tuple[int, int, int]:
    """Rows of a file, its lowest offset, and the one behind its highest: read from the end of the file alone."""
    session: Any = spark
    java = session._jvm
    hadoop_path = java.org.apache.hadoop.fs.Path(path)
    parquet = java.org.apache.parquet.hadoop
    source = parquet.util.HadoopInputFile.fromPath(hadoop_path, session._jsc.hadoopConfiguration())
    reader = parquet.ParquetFileReader.open(source)
    try:
        rows, lowest, highest = int(reader.getRecordCount()), [], []
        for block in reader.getFooter().getBlocks():
            for column in block.getColumns():
                if column.getPath().toDotString() == "offset":
                    lowest.append(int(column.getStatistics().genericGetMin()))
                    highest.append(int(column.getStatistics().genericGetMax()))
    finally:
        reader.close()
    return rows, min(lowest, default=0), max(highest, default=-1) + 1


def unescaped(text: str) -> str:
    """A partition's value out of its folder's name, as Spark writes it: %XX for what a path cannot hold."""
    head, *rest = text.split("%")
    return head + "".join(chr(int(part[:2], 16)) + part[2:] if _is_hex(part[:2]) else f"%{part}" for part in rest)


def _is_hex(text: str) -> bool:
    return len(text) == 2 and all(each in "0123456789abcdefABCDEF" for each in text)


def read_files(spark: SparkSession, store: ArchiveStore, files: list[DataFile]) -> DataFrame:
    """The rows of some files, wherever the files are now."""
    schema = full_schema(store.state)
    parts = []
    for base, names in sorted(store.locations(files).items()):
        reader = spark.read.schema(schema).option("basePath", f"{store.folder.root}/{base}".rstrip("/"))
        parts.append(reader.parquet(*(f"{store.folder.root}/{name}" for name in names)))
    if not parts:
        return spark.createDataFrame([], schema)
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    # Spark puts what the folders tell behind the rest.
    return whole.select(*schema.names)


def full_schema(state: ArchiveState) -> Any:
    """All columns that a row of the archive has; topic and date are told by the folders."""
    from pyspark.sql.types import StructType

    from tocsin.spark.schema import default_schema

    if state.schema is None:
        return StructType.fromJson(json.loads(default_schema(True).json())).add("date", "date")
    return StructType.fromJson(dict(state.schema))
