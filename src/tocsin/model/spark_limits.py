"""The bounds of the Spark data source and its pipelines, with the asserts that relate them."""

from tocsin.model.limits import BATCH_MESSAGES_MAX, BLOCK_BYTES_MAX, MIB

# Spark.
SPARK_BATCH_ROWS = 65_536
SPARK_BATCH_BYTES = 32 * MIB
"""What one record batch takes; a block that is larger by itself makes one of its own."""
SPARK_TASK_ROWS_MIN = 100_000
"""Fewer rows are not worth a task more: starting one costs as long as reading these."""
SPARK_TASK_ROWS = 1_000_000
SPARK_TASKS_PER_CORE = 4
SPARK_OFFSETS_PER_TRIGGER = 2_000_000
SPARK_CONNECTIONS_MAX = 8
"""Servers that one Python worker keeps a connection to."""
SPARK_CONNECT_PAUSE_SECONDS = 0.5
SPARK_ABORT_SECONDS = 5.0
"""So long a failed write waits for the server to drop what was staged, which else expires."""
SPARK_PATTERN_SECONDS = 1.0
"""So long a list of destinations that match a pattern is good."""
SPARK_HOLD_SECONDS = 7 * 24 * 3600.0
SPARK_HOLD_REFRESH_SECONDS = 600.0
SPARK_DRAIN_SECONDS = 24 * 3600.0
SPARK_WARMING_SECONDS_MAX = 600.0
"""So long a run that makes the cache of Spark's classes may take."""
SPARK_CLASS_CACHES_MAX = 3
"""Caches of Spark's classes that are kept, one for each pair of Java and Spark; each has more than 100 MB."""
SPARK_DRAIN_TAKES_MAX = 64
"""Takes of one queue in one trigger; what is left comes with the next."""

# Archives that a Spark pipeline writes.
ARCHIVE_SNAPSHOT_COMMITS = 64
ARCHIVE_COMMIT_TRIES_MAX = 16
"""Commits that others may make before ours; only a compaction and an archive ever meet."""
ARCHIVE_SETTLE_SECONDS = 2.0
"""How long a reader waits for a live archive to move files that it has committed."""
ARCHIVE_GRACE_SECONDS = 3600.0
"""How long files that a newer commit does without stay for readers of an older one."""
REPLAY_CHUNK_ROWS = 200_000
REPLAY_CHUNK_ROWS_MAX = 2_000_000
REPLAY_CHUNK_SECONDS = 2.0
"""A rate is kept from chunk to chunk, so a chunk has no more rows than this much time allows."""
REPLAY_ID_CHARACTERS_MAX = 64
VERIFY_EXAMPLES_MAX = 20

assert BATCH_MESSAGES_MAX <= SPARK_BATCH_ROWS and BLOCK_BYTES_MAX < SPARK_BATCH_BYTES < 1 << 31, "Arrow offsets are i32"
assert SPARK_HOLD_REFRESH_SECONDS * 4 < SPARK_HOLD_SECONDS, "a query that lives never loses its hold"
