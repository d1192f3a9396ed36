"""Copies keys and values of a topic to another one: the same file for `tocsin pipeline run` and for spark-submit.

own_pipeline.py --from SOURCE --to TARGET --checkpoint FOLDER [--follow] [--url URL]
"""

from __future__ import annotations

from typing import Any

import tocsin.spark


def pipeline(spark: Any, options: dict[str, str]) -> Any:
    read = spark.readStream.format("tocsin").option("url", options["url"]).option("subscribe", options["from"])
    rows = read.option("startingOffsets", "earliest").option("minPartitions", "2").load()
    write = rows.select("key", "value").writeStream.format("tocsin").option("url", options["url"])
    write = write.option("topic", options["to"]).option("checkpointLocation", options["checkpoint"])
    return (write if "follow" in options else write.trigger(availableNow=True)).start()


if __name__ == "__main__":
    tocsin.spark.submit(pipeline)
