"""Rows between Spark and Python take a short way in Java; see docs/decisions/0016.

Left to itself Spark makes rows of its own binary form from the record batches of a Python source, passes each through
half a dozen iterators and adds up metrics every hundred of them. Its planner, which does not know that form, puts a
projection of all columns above, which takes each row apart and makes the same row again. Together that is more than
half of what executors do when a topic is read. Rows that are written go the same way back, each value by way of an
array of its own. A strategy in the session's planner puts scans and writes of ours in the place of Spark's, unless
spark.tocsin.directScan or spark.tocsin.directWrite is false.

DirectPlans.java  the strategy, and the plans that it makes, on the driver
TopicRows.java    how a partition becomes rows, on executors
TopicWriter.java  what a task of a write does there

Nothing is shipped for it: Janino, the compiler that comes with Spark and that compiles its queries, compiles what the
driver needs when a session starts. The rest goes to executors as text, which is how the code of a query gets there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tocsin.spark.data_source import FORMAT

RELEASES = ("4.3.",)
"""Releases of Spark whose parts are known to be as this strategy names them; others plan as they like."""


_STRATEGY = "DirectPlans"


def plan_directly(spark: SparkSession) -> None:
    """Adds the strategy to a session's planner, unless it is there. Without it all works, but slower."""
    if not spark.version.startswith(RELEASES):
        return
    # Somebody's own Spark may differ from the one of its release. A class that it lacks can't be called.
    with suppress(Py4JError, TypeError):
        _add_strategy(spark)


def _add_strategy(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    methods = spark._jsparkSession.experimental()
    added = methods.extraStrategies()
    name = f"tocsin.{_STRATEGY}"
    if any(each.getClass().getName() == name for each in _elements(added)):
        return
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(methods.getClass().getClassLoader())
    compiler.cook(java_text(_STRATEGY))
    arguments = spark.sparkContext._gateway.new_array(java.java.lang.Object, 4)
    arguments[0] = java.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy(spark._jsparkSession)
    arguments[1] = FORMAT
    arguments[2] = java_text("TopicRows")
    arguments[3] = java_text("TopicWriter")
    (constructor,) = compiler.getClassLoader().loadClass(name).getConstructors()
    getattr(methods, "extraStrategies_$eq")(added.toList().prepended(constructor.newInstance(arguments)))


def _elements(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.length()))


def java_text(name: str) -> str:
    return files("tocsin.spark").joinpath(f"{name}.java").read_text()
