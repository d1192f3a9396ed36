"""Ready pipelines: each is a dataclass of options and a function, used by `tocsin pipeline run` and from Python.

definition   what a pipeline is: options, progress, report
registry     all of them by name
sizing       whether a run is one of seconds
watching     waits for a streaming query: rows per second, lag, a clean stop
causes       why a query failed, in one sentence instead of a stack trace
user_file    pipelines that users write: a file with a function `pipeline(spark, options)`
transform    topic to topic through SQL or a Python function
triage       dead messages by reason and origin, and back to where they came from
archive      topics to Parquet, exactly once
archive_log      the archive's commits and what they add up to: pure
archive_folder   the files of an archive, on the local file system or on any that Hadoop knows
archive_store    commits made once, finished after a crash, cleaned up
archive_parquet  rows to staged Parquet files and back, counted by their footers
archive_epochs   what an epoch of a streaming query covers, out of Spark's checkpoint
archive_compact  many small files of an archive into few large ones
history      archive and live topic as one table, without a gap and without an overlap
verify       a topic against its archive or against another topic
verify_rows      two sides compared row by row, whatever their order
live_topics      offsets of a live topic, and a range of it as a table
replay       an archive or a range of a topic back to a topic, exactly once and not too fast
"""
