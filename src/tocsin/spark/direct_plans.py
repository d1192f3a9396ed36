"""Rows between Spark and Python take a short way in Java; see docs/decisions/0016.

Left to itself Spark makes rows of its own binary form from the record batches of a Python source, passes each through
half a dozen iterators and adds up metrics every hundred of them. Its planner, which does not know that form, puts a
projection of all columns above, which takes each row apart and makes the same row again. Together that is more than
half of what executors do when a topic is read. Rows that are written go the same way back, each value by way of an
array of its own. Strategies in the session's planner put scans and writes of ours in the place of Spark's.

DirectScan.java   plans scans, on the driver; TopicRows.java: how a partition becomes rows, on executors
DirectWrite.java  plans writes of frames; TopicWriter.java: what their tasks do

Nothing is shipped for it: Janino, the compiler that comes with Spark and that compiles its queries, compiles what the
driver needs when a session starts. The rest goes to executors as text, which is how the code of a query gets there.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tocsin.spark.data_source import FORMAT

RELEASES = ("4.3.",)
"""Releases of Spark whose parts are known to be as these strategies name them; others plan as they like."""


class Plan(NamedTuple):
    """A strategy, the setting that keeps it from planning anything, and what it sends to executors."""

    setting: str
    strategy: str
    on_executors: str


PLANS = (
    Plan("spark.tocsin.directScan", "DirectScan", "TopicRows"),
    Plan("spark.tocsin.directWrite", "DirectWrite", "TopicWriter"),
)


def plan_directly(spark: SparkSession) -> None:
    """Adds the strategies to a session's planner, unless they are there. Without them all works, but slower."""
    if not spark.version.startswith(RELEASES):
        return
    for plan in PLANS:
        try:
            _add(spark, plan)
        except (Py4JError, TypeError):
            # Somebody's own Spark that differs from the one of its release. A class that it lacks can't be called.
            continue


def _add(spark: SparkSession, plan: Plan) -> None:
    java: Any = spark.sparkContext._jvm
    methods = spark._jsparkSession.experimental()
    added = methods.extraStrategies()
    name = f"tocsin.{plan.strategy}"
    if any(each.getClass().getName() == name for each in _elements(added)):
        return
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(methods.getClass().getClassLoader())
    compiler.cook(java_text(plan.strategy))
    arguments = spark.sparkContext._gateway.new_array(java.java.lang.Object, 4)
    arguments[0] = java.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy(spark._jsparkSession)
    arguments[1] = FORMAT
    arguments[2] = plan.setting
    arguments[3] = java_text(plan.on_executors)
    (constructor,) = compiler.getClassLoader().loadClass(name).getConstructors()
    getattr(methods, "extraStrategies_$eq")(added.toList().prepended(constructor.newInstance(arguments)))


def _elements(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.length()))


def java_text(name: str) -> str:
    return files("tocsin.spark").joinpath(f"{name}.java").read_text()
