package tocsin;

import java.util.ArrayList;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeAndComment;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.WholeStageCodegenEvaluatorFactory;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanExecBase;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingPartitionReaderFactory;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.util.Right;

/** Plans scans of one format; see direct_plans.py. Janino knows no type parameters that it could check, so there are none. */
public final class DirectScan extends SparkStrategy {
    private final SparkStrategy usual;
    private final String format;
    private final String setting;
    private final CodeAndComment rows;

    /** `rows` is the text of TopicRows.java, which executors compile. A Spark that can't is found out here. */
    public DirectScan(SparkStrategy usual, String format, String setting, String rows) {
        this.usual = usual;
        this.format = format;
        this.setting = setting;
        this.rows = new CodeAndComment(rows, Map$.MODULE$.empty());
        CodeGenerator.compile(this.rows);
    }

    /** What Spark plans for a scan of this format and what is chosen of it, with a scan of ours. */
    public Seq apply(LogicalPlan plan) {
        LogicalPlan source = plan;
        while (source instanceof Project || source instanceof Filter) {
            source = (LogicalPlan) source.children().head();
        }
        boolean scanned =
            source instanceof DataSourceV2ScanRelation || source instanceof StreamingDataSourceV2ScanRelation;
        if (!scanned || !format.equals(((NamedRelation) source).name())
                || SQLConf.get().getConfString(setting, "true").equalsIgnoreCase("false")) {
            return Nil$.MODULE$;
        }
        Seq planned = usual.apply(plan);
        SparkPlan changed = planned.length() == 1 ? changed((SparkPlan) planned.head()) : null;
        return changed == null ? planned : Nil$.MODULE$.$colon$colon(changed);
    }

    /** The plan with a scan of ours, and without a projection that makes the same rows again. Null for any other plan. */
    private SparkPlan changed(SparkPlan plan) {
        if (plan.children().isEmpty()) {
            return direct(plan);
        }
        if (plan.children().length() > 1) {
            return null;
        }
        SparkPlan child = changed((SparkPlan) plan.children().head());
        if (child != null && !(plan instanceof ProjectExec && ((ProjectExec) plan).projectList().equals(child.output()))) {
            child = (SparkPlan) plan.withNewChildren(Nil$.MODULE$.$colon$colon(child));
        }
        return child;
    }

    private SparkPlan direct(SparkPlan scan) {
        if (!(scan instanceof DataSourceV2ScanExecBase && ((DataSourceV2ScanExecBase) scan).scan() instanceof PythonScan)) {
            return null;
        }
        if (scan instanceof BatchScanExec) {
            BatchScanExec batch = (BatchScanExec) scan;
            return new OfBatch(batch.output(), batch.scan(), batch.runtimeFilters(), batch.ordering(), batch.table(),
                batch.keyGroupedPartitioning(), rows);
        }
        if (scan instanceof MicroBatchScanExec) {
            MicroBatchScanExec stream = (MicroBatchScanExec) scan;
            return new OfStream(stream.output(), stream.scan(), stream.stream(), stream.start(), stream.end(),
                stream.keyGroupedPartitioning(), stream.ordering(), rows);
        }
        return null;
    }

    /** The rows of all partitions. The references are what TopicRows takes first. */
    static RDD execute(SparkPlan scan, CodeAndComment rows, ArrayList partitions, Object[] references) {
        ClassTag tag = ClassTag$.MODULE$.apply(InternalRow.class);
        for (int at = 0; at < partitions.size(); at++) {
            partitions.set(at, new GenericInternalRow(new Object[] {partitions.get(at)}));
        }
        Seq pickled = CollectionConverters.asScala(partitions).toSeq();
        RDD input = scan.sparkContext().parallelize(pickled, partitions.size(), tag);
        SQLMetric time = SQLMetrics.createTimingMetric(scan.sparkContext(), "duration", -1L);
        return input.mapPartitionsWithEvaluator(
            new WholeStageCodegenEvaluatorFactory(new Right(rows), time, references), tag);
    }

    /** A table's scan. Spark copies plans, by the constructor, with what `otherCopyArgs` adds. */
    public static class OfBatch extends BatchScanExec {
        private final CodeAndComment rows;

        public OfBatch(Seq output, Scan scan, Seq filters, Option ordering, Table table, Option grouping,
                CodeAndComment rows) {
            super(output, scan, filters, ordering, table, grouping);
            this.rows = rows;
        }

        public Seq otherCopyArgs() {
            return Nil$.MODULE$.$colon$colon(rows);
        }

        /** Plans above this one may take it to executors, which have no such class and need none. */
        public Object writeReplace() {
            return new BatchScanExec(output(), scan(), runtimeFilters(), ordering(), table(), keyGroupedPartitioning());
        }

        public RDD doExecute() {
            Seq planned = inputPartitions();
            if (planned.isEmpty()) {
                return super.doExecute();
            }
            ArrayList partitions = new ArrayList();
            for (int at = 0; at < planned.length(); at++) {
                partitions.add(((PythonInputPartition) planned.apply(at)).pickedPartition());
            }
            PythonPartitionReaderFactory factory = (PythonPartitionReaderFactory) readerFactory();
            return DirectScan.execute(this, rows, partitions, new Object[] {
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$source,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$pickledReadFunc,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$outputSchema,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$jobArtifactUUID,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$sessionUUID,
                longMetric("numOutputRows"), customMetrics(),
            });
        }
    }

    /** A micro-batch's scan. */
    public static class OfStream extends MicroBatchScanExec {
        private final CodeAndComment rows;

        public OfStream(Seq output, Scan scan, MicroBatchStream stream, Offset start, Offset end, Option grouping,
                Option ordering, CodeAndComment rows) {
            super(output, scan, stream, start, end, grouping, ordering);
            this.rows = rows;
        }

        public Seq otherCopyArgs() {
            return Nil$.MODULE$.$colon$colon(rows);
        }

        public Object writeReplace() {
            return new MicroBatchScanExec(output(), scan(), stream(), start(), end(), keyGroupedPartitioning(), ordering());
        }

        public String nodeName() {
            return "MicroBatchScan";
        }

        public RDD doExecute() {
            Seq planned = inputPartitions();
            ArrayList partitions = new ArrayList();
            for (int at = 0; at < planned.length(); at++) {
                PythonStreamingInputPartition partition = (PythonStreamingInputPartition) planned.apply(at);
                if (partition.blockId().isDefined()) {
                    // Rows that Spark has already, from a simple reader. This format has none.
                    return super.doExecute();
                }
                partitions.add(partition.pickedPartition());
            }
            if (partitions.isEmpty()) {
                return super.doExecute();
            }
            PythonStreamingPartitionReaderFactory factory = (PythonStreamingPartitionReaderFactory) readerFactory();
            return DirectScan.execute(this, rows, partitions, new Object[] {
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$source,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$pickledReadFunc,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$outputSchema,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$jobArtifactUUID,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$sessionUUID,
                longMetric("numOutputRows"), customMetrics(),
            });
        }
    }
}
