"""The Spark data source and the ready pipelines, built on the client library and PySpark.

pipelines    ready pipelines, and how they are run
"""
