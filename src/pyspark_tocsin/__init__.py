"""Spark looks for data sources in top-level modules with names like this one's, and finds the format "tocsin" here."""

from tocsin.spark.data_source import TocsinDataSource as DefaultSource

__all__ = ["DefaultSource"]
