"""Rows of a topic go to what follows them as they are, not copied once more; see docs/decisions/0016.

Spark makes rows of its own binary form from the record batches of a Python source. Its planner does not know that, and
puts a projection of all columns above the scan, which takes each row apart and makes the same row again: a quarter of
what executors do when a topic is read. A planner's strategy leaves it out where it changes nothing.

A strategy is a class of Java's. This one is compiled by Janino, the compiler that comes with Spark and that compiles
its queries; executors never see it, since all that it makes are scans of Spark's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tocsin.spark.data_source import FORMAT

SETTING = "spark.tocsin.directScan"
RELEASES = ("4.3.",)
"""Releases of Spark that are known to make rows of its binary form; others plan as they like."""

_CLASS = "tocsin.DirectScan"
_SOURCE = """
package tocsin;

import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanExecBase;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

public final class DirectScan extends SparkStrategy {
    private final SparkStrategy usual;
    private final String format;

    public DirectScan(SparkStrategy usual, String format) {
        this.usual = usual;
        this.format = format;
    }

    /** What Spark plans for a scan of this format, without the projection that makes the same rows again. */
    public Seq apply(LogicalPlan plan) {
        boolean scanned = plan instanceof DataSourceV2ScanRelation || plan instanceof StreamingDataSourceV2ScanRelation;
        if (!scanned || !format.equals(((NamedRelation) plan).name())) {
            return Nil$.MODULE$;
        }
        Seq planned = usual.apply(plan);
        if (planned.length() != 1 || !(planned.head() instanceof ProjectExec)) {
            return planned;
        }
        ProjectExec projection = (ProjectExec) planned.head();
        SparkPlan scan = projection.child();
        boolean python = scan instanceof DataSourceV2ScanExecBase
            && ((DataSourceV2ScanExecBase) scan).scan() instanceof PythonScan;
        boolean same = projection.projectList().equals(scan.output());
        return python && same ? Nil$.MODULE$.$colon$colon(scan) : planned;
    }
}
"""


def plan_scans_directly(spark: SparkSession) -> bool:
    """Adds the strategy to a session's planner, unless it is there; whether it is. Without it all works, but slower."""
    if not spark.version.startswith(RELEASES) or str(spark.conf.get(SETTING, "true")).lower() == "false":
        return False
    try:
        _add_strategy(spark)
    except Py4JError:
        # Somebody's own Spark that differs from the one of its release.
        return False
    return True


def _add_strategy(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    methods = spark._jsparkSession.experimental()
    added = methods.extraStrategies()
    if any(each.getClass().getName() == _CLASS for each in _elements(added)):
        return
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(methods.getClass().getClassLoader())
    compiler.cook(_SOURCE)
    arguments = spark.sparkContext._gateway.new_array(java.java.lang.Object, 2)
    arguments[0] = java.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy(spark._jsparkSession)
    arguments[1] = FORMAT
    (constructor,) = compiler.getClassLoader().loadClass(_CLASS).getConstructors()
    getattr(methods, "extraStrategies_$eq")(added.toList().prepended(constructor.newInstance(arguments)))


def _elements(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.length()))
