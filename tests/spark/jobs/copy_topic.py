"""Copies keys and values of a topic to another one: what a user would hand to spark-submit.

copy_topic.py URL SOURCE TARGET CHECKPOINT ROWS [once]

An epoch has at most ROWS rows. With `once` the query ends when it has copied what was there.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import tocsin.spark

SHIPPED_AS = "tocsin came as "


def main(url: str, source: str, target: str, checkpoint: str, rows: str, *once: str) -> None:
    spark = SparkSession.builder.appName("copy topic").getOrCreate()
    tocsin.spark.register(spark)
    sys.stdout.write(f"{SHIPPED_AS}{tocsin.spark.__file__}\n")
    sys.stdout.flush()
    read = spark.readStream.format("tocsin").option("url", url).option("subscribe", source)
    read = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", rows).option("minPartitions", "2")
    write = read.load().select("key", "value").writeStream.format("tocsin").option("url", url).option("topic", target)
    write = write.option("checkpointLocation", checkpoint)
    query = (write.trigger(availableNow=True) if once else write).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
