"""`make bench-spark`: Spark on a topic, against Spark on Parquet files of the same rows, side by side in one run.

rows      the rows, in a topic and in Parquet
cases     what is timed, in interleaved rounds
tuples    the source without Arrow, for comparison
streams   micro-batches
starting  a pipeline with nothing to do
figures   ratios and goals
"""
