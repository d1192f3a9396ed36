package tocsin;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeAndComment;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.PhysicalWriteInfoImpl;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.WholeStageCodegenEvaluatorFactory;
import org.apache.spark.sql.execution.datasources.v2.AppendDataExec;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanExecBase;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.util.CollectionAccumulator;
import scala.Function0;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.reflect.ClassTag;
import scala.util.Right;

/**
 * Plans scans of one format and writes of frames to it; see direct_plans.py. Janino knows no type parameters that it could
 * check, so there are none.
 */
public final class DirectPlans extends SparkStrategy {
    private final SparkStrategy usual;
    private final String format;
    private final CodeAndComment rows;
    private final CodeAndComment task;

    /** `rows` and `task` are the texts of TopicRows.java and TopicWriter.java. A Spark that can't compile them fails here. */
    public DirectPlans(SparkStrategy usual, String format, String rows, String task) {
        this.usual = usual;
        this.format = format;
        this.rows = compiled(rows);
        this.task = compiled(task);
    }

    private static CodeAndComment compiled(String text) {
        CodeAndComment code = new CodeAndComment(text, Map$.MODULE$.empty());
        CodeGenerator.compile(code);
        return code;
    }

    /** What Spark plans, with scans and writes of ours in the place of Spark's. */
    public Seq apply(LogicalPlan plan) {
        if (!(plan instanceof AppendData ? isDirect(table(plan), "directWrite") : isDirect(source(plan), "directScan"))) {
            return Nil$.MODULE$;
        }
        Seq planned = usual.apply(plan);
        SparkPlan changed = planned.length() == 1 ? changed((SparkPlan) planned.head()) : null;
        return changed == null ? planned : Nil$.MODULE$.$colon$colon(changed);
    }

    private boolean isDirect(LogicalPlan relation, String setting) {
        return relation instanceof NamedRelation && format.equals(((NamedRelation) relation).name())
            && !SQLConf.get().getConfString("spark.tocsin." + setting, "true").equalsIgnoreCase("false");
    }

    /** What is written to: the first part of such a plan. Janino can't call `table`, which has two types. */
    private static LogicalPlan table(LogicalPlan append) {
        return (LogicalPlan) append.productElement(0);
    }

    /** What is read, below filters and chosen columns; null if nothing is. */
    private static LogicalPlan source(LogicalPlan plan) {
        while (plan instanceof Project || plan instanceof Filter) {
            plan = (LogicalPlan) plan.children().head();
        }
        return plan instanceof DataSourceV2ScanRelation || plan instanceof StreamingDataSourceV2ScanRelation ? plan : null;
    }

    /** The plan with a part of ours, and without a projection that makes the same rows again. Null for any other plan. */
    private SparkPlan changed(SparkPlan plan) {
        if (plan instanceof AppendDataExec) {
            return written((AppendDataExec) plan);
        }
        if (plan.children().isEmpty()) {
            return scanned(plan);
        }
        SparkPlan child = plan.children().length() == 1 ? changed((SparkPlan) plan.children().head()) : null;
        if (child != null && !(plan instanceof ProjectExec && ((ProjectExec) plan).projectList().equals(child.output()))) {
            child = (SparkPlan) plan.withNewChildren(Nil$.MODULE$.$colon$colon(child));
        }
        return child;
    }

    private SparkPlan written(AppendDataExec append) {
        return append.write() instanceof PythonWrite
            ? new FrameWrite(append.query(), append.refreshCache(), append.write(), append.tableName(),
                append.transaction(), task)
            : null;
    }

    private SparkPlan scanned(SparkPlan scan) {
        if (!(scan instanceof DataSourceV2ScanExecBase && ((DataSourceV2ScanExecBase) scan).scan() instanceof PythonScan)) {
            return null;
        }
        if (scan instanceof BatchScanExec) {
            BatchScanExec batch = (BatchScanExec) scan;
            return new BatchScan(batch.output(), batch.scan(), batch.runtimeFilters(), batch.ordering(), batch.table(),
                batch.keyGroupedPartitioning(), rows);
        }
        if (scan instanceof MicroBatchScanExec) {
            MicroBatchScanExec stream = (MicroBatchScanExec) scan;
            return new StreamScan(stream.output(), stream.scan(), stream.stream(), stream.start(), stream.end(),
                stream.keyGroupedPartitioning(), stream.ordering(), rows);
        }
        return null;
    }

    /** A job's tasks, whose code executors compile; the references are what it takes first. */
    static RDD tasks(RDD input, CodeAndComment code, Object[] references) {
        SQLMetric time = SQLMetrics.createTimingMetric(input.sparkContext(), "duration", -1L);
        return input.mapPartitionsWithEvaluator(
            new WholeStageCodegenEvaluatorFactory(new Right(code), time, references), rowTag());
    }

    private static ClassTag rowTag() {
        return ClassTag$.MODULE$.apply(InternalRow.class);
    }

    /** A task for each partition, which gets what Python has to know of it. */
    static RDD read(SparkPlan scan, Seq partitions, CodeAndComment rows, Object[] references) {
        ArrayList pickled = new ArrayList();
        for (int at = 0; at < partitions.length(); at++) {
            Object each = partitions.apply(at);
            byte[] content = each instanceof PythonInputPartition
                ? ((PythonInputPartition) each).pickedPartition()
                : ((PythonStreamingInputPartition) each).pickedPartition();
            pickled.add(new GenericInternalRow(new Object[] {content}));
        }
        Seq all = CollectionConverters.asScala(pickled).toSeq();
        return tasks(scan.sparkContext().parallelize(all, pickled.size(), rowTag()), rows, references);
    }

    /** A table's scan. Spark copies plans, by the constructor, with what `otherCopyArgs` adds. */
    public static class BatchScan extends BatchScanExec {
        private final CodeAndComment rows;

        public BatchScan(Seq output, Scan scan, Seq filters, Option ordering, Table table, Option grouping,
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
            if (inputPartitions().isEmpty()) {
                return super.doExecute();
            }
            PythonPartitionReaderFactory factory = (PythonPartitionReaderFactory) readerFactory();
            return DirectPlans.read(this, inputPartitions(), rows, new Object[] {
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
    public static class StreamScan extends MicroBatchScanExec {
        private final CodeAndComment rows;

        public StreamScan(Seq output, Scan scan, MicroBatchStream stream, Offset start, Offset end, Option grouping,
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
            if (inputPartitions().isEmpty()) {
                return super.doExecute();
            }
            PythonStreamingPartitionReaderFactory factory = (PythonStreamingPartitionReaderFactory) readerFactory();
            return DirectPlans.read(this, inputPartitions(), rows, new Object[] {
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$source,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$pickledReadFunc,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$outputSchema,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$jobArtifactUUID,
                factory.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$sessionUUID,
                longMetric("numOutputRows"), customMetrics(),
            });
        }
    }

    /** A frame's write. */
    public static class FrameWrite extends AppendDataExec {
        private final CodeAndComment task;

        public FrameWrite(SparkPlan query, Function0 refreshCache, Write write, String table, Option transaction,
                CodeAndComment task) {
            super(query, refreshCache, write, table, transaction);
            this.task = task;
        }

        public Seq otherCopyArgs() {
            return Nil$.MODULE$.$colon$colon(task);
        }

        public AppendDataExec withNewChildInternal(SparkPlan query) {
            return new FrameWrite(query, refreshCache(), write(), tableName(), transaction(), task);
        }

        public String nodeName() {
            return "DirectAppendData " + tableName();
        }

        /** All tasks write, and then what they have written is committed, once. A frame without partitions is Spark's. */
        public Seq writeWithV2(BatchWrite write) {
            RDD rows = query().execute();
            int partitions = rows.getNumPartitions();
            if (partitions == 0) {
                return super.writeWithV2(write);
            }
            PythonBatchWriterFactory factory =
                (PythonBatchWriterFactory) write.createBatchWriterFactory(new PhysicalWriteInfoImpl(partitions));
            CollectionAccumulator finished = sparkContext().collectionAccumulator();
            try {
                Object[] written = run(DirectPlans.tasks(rows, task, new Object[] {
                    factory.source(), factory.pickledWriteFunc(), factory.inputSchema(), factory.jobArtifactUUID(),
                    factory.sessionUUID(), numOutputRowsMetric(), customMetrics(), finished,
                }));
                if (written.length != partitions) {
                    throw new IllegalStateException(partitions + " tasks have ended " + written.length + " writes.");
                }
                WriterCommitMessage[] messages = new WriterCommitMessage[partitions];
                for (int at = 0; at < partitions; at++) {
                    messages[at] = new PythonWriterCommitMessage(((InternalRow) written[at]).getBinary(0));
                }
                write.commit(messages);
            } catch (Throwable cause) {
                abort(write, finished.value(), cause);
                throw cause;
            }
            return Nil$.MODULE$;
        }

        /** Runs the job, with a name that says what it does unless the user has given it one. */
        private Object[] run(RDD tasks) {
            String named = sparkContext().getLocalProperty("callSite.short");
            if (named == null) {
                sparkContext().setLocalProperty("callSite.short", "save to " + tableName());
            }
            try {
                return (Object[]) tasks.collect();
            } finally {
                sparkContext().setLocalProperty("callSite.short", named);
            }
        }

        /** What tasks have written that have ended is dropped; what others have written they drop themselves. */
        private void abort(BatchWrite write, List finished, Throwable cause) {
            WriterCommitMessage[] messages = new WriterCommitMessage[finished.size()];
            for (int at = 0; at < messages.length; at++) {
                messages[at] = new PythonWriterCommitMessage((byte[]) finished.get(at));
            }
            try {
                write.abort(messages);
            } catch (Throwable second) {
                cause.addSuppressed(second);
            }
        }
    }
}
