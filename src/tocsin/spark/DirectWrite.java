package tocsin;

import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeAndComment;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.PhysicalWriteInfoImpl;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.WholeStageCodegenEvaluatorFactory;
import org.apache.spark.sql.execution.datasources.v2.AppendDataExec;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
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
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.util.Right;

/** Plans writes of frames to one format; see direct_plans.py. */
public final class DirectWrite extends SparkStrategy {
    private final SparkStrategy usual;
    private final String format;
    private final String setting;
    private final CodeAndComment task;

    /** `task` is the text of TopicWriter.java, which executors compile. A Spark that can't is found out here. */
    public DirectWrite(SparkStrategy usual, String format, String setting, String task) {
        this.usual = usual;
        this.format = format;
        this.setting = setting;
        this.task = new CodeAndComment(task, Map$.MODULE$.empty());
        CodeGenerator.compile(this.task);
    }

    public Seq apply(LogicalPlan plan) {
        // Its first part is the table. Janino can't call `table`, which has two types.
        if (!(plan instanceof AppendData) || !format.equals(((NamedRelation) plan.productElement(0)).name())
                || SQLConf.get().getConfString(setting, "true").equalsIgnoreCase("false")) {
            return Nil$.MODULE$;
        }
        Seq planned = usual.apply(plan);
        if (planned.length() != 1 || !(planned.head() instanceof AppendDataExec)) {
            return planned;
        }
        AppendDataExec append = (AppendDataExec) planned.head();
        if (!(append.write() instanceof PythonWrite)) {
            return planned;
        }
        return Nil$.MODULE$.$colon$colon(new OfFrame(append.query(), append.refreshCache(), append.write(),
            append.tableName(), append.transaction(), task));
    }

    /** A frame's write. Spark copies plans, by the constructor, with what `otherCopyArgs` adds. */
    public static class OfFrame extends AppendDataExec {
        private final CodeAndComment task;

        public OfFrame(SparkPlan query, Function0 refreshCache, Write write, String table, Option transaction,
                CodeAndComment task) {
            super(query, refreshCache, write, table, transaction);
            this.task = task;
        }

        public Seq otherCopyArgs() {
            return Nil$.MODULE$.$colon$colon(task);
        }

        public AppendDataExec withNewChildInternal(SparkPlan query) {
            return new OfFrame(query, refreshCache(), write(), tableName(), transaction(), task);
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
                Object[] written = run(tasks(rows, factory, finished));
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

        private RDD tasks(RDD rows, PythonBatchWriterFactory factory, CollectionAccumulator finished) {
            ClassTag tag = ClassTag$.MODULE$.apply(InternalRow.class);
            SQLMetric time = SQLMetrics.createTimingMetric(sparkContext(), "duration", -1L);
            return rows.mapPartitionsWithEvaluator(new WholeStageCodegenEvaluatorFactory(new Right(task), time,
                new Object[] {
                    factory.source(), factory.pickledWriteFunc(), factory.inputSchema(), factory.jobArtifactUUID(),
                    factory.sessionUUID(), numOutputRowsMetric(), customMetrics(), finished,
                }), tag);
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
