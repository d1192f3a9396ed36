/** The rows of one partition, made where the executor is. Spark compiles this text as it does the code of its queries. */
public Object generate(Object[] references) {
    return new TopicRows(references);
}

final class TopicRows extends org.apache.spark.sql.execution.BufferedRowIterator {
    private final org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource source;
    private final byte[] reader;
    private final org.apache.spark.sql.types.StructType schema;
    private final scala.Option artifacts;
    private final scala.Option session;
    private final org.apache.spark.sql.execution.metric.SQLMetric rowsOut;
    private final scala.collection.immutable.Map metrics;
    private final org.apache.spark.TaskContext task = org.apache.spark.TaskContext.get();
    private final org.apache.spark.sql.catalyst.expressions.UnsafeProjection projection;

    private scala.collection.Iterator batches;
    private org.apache.spark.sql.vectorized.ColumnarBatchRow row;
    private int rows;

    public TopicRows(Object[] references) {
        source = (org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource) references[0];
        reader = (byte[]) references[1];
        schema = (org.apache.spark.sql.types.StructType) references[2];
        artifacts = (scala.Option) references[3];
        session = (scala.Option) references[4];
        rowsOut = (org.apache.spark.sql.execution.metric.SQLMetric) references[5];
        // What is shown of Python's work; what is not shown is counted as well.
        metrics = (scala.collection.immutable.Map) org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric
            .pythonMetrics().concat((scala.collection.IterableOnce) references[6]);
        projection = org.apache.spark.sql.catalyst.expressions.UnsafeProjection.create(schema);
    }

    /** A worker gets the pickled partition, and sends record batches until it has read all of it. */
    public void init(int index, scala.collection.Iterator[] inputs) {
        partitionIndex = index;
        org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory$MapInBatchEvaluator evaluator =
            (org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory$MapInBatchEvaluator)
            source.createMapInBatchEvaluatorFactory(reader, "read_from_data_source",
                org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource.readInputSchema(),
                schema, metrics, artifacts, session).createEvaluator();
        org.apache.spark.sql.execution.python.ArrowPythonRunner runner = new
            org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory$MapInBatchEvaluator$$anon$1(
                evaluator, new int[][] {{0}});
        Object partition = new org.apache.spark.sql.catalyst.expressions.GenericInternalRow(
            new Object[] {inputs[0].next()});
        batches = runner.compute(single(single(partition)), task.partitionId(), task);
    }

    private scala.collection.Iterator single(Object element) {
        return scala.collection.Iterator$.MODULE$.single(element);
    }

    public boolean hasNext() throws java.io.IOException {
        while (row == null || row.rowId + 1 >= rows) {
            task.killTaskIfInterrupted();
            if (!batches.hasNext()) {
                return false;
            }
            take((org.apache.spark.sql.vectorized.ColumnarBatch) batches.next());
        }
        return true;
    }

    public InternalRow next() {
        row.rowId++;
        return projection.apply(row);
    }

    /** Rows are counted by the batch, as those of Parquet are: to count each of them costs a quarter of the time. */
    private void take(org.apache.spark.sql.vectorized.ColumnarBatch batch) {
        org.apache.spark.sql.vectorized.ArrowColumnVector columns =
            (org.apache.spark.sql.vectorized.ArrowColumnVector) batch.column(0);
        org.apache.spark.sql.vectorized.ColumnVector[] wanted =
            new org.apache.spark.sql.vectorized.ColumnVector[schema.length()];
        for (int at = 0; at < wanted.length; at++) {
            wanted[at] = columns.getChild(at);
        }
        row = new org.apache.spark.sql.vectorized.ColumnarBatchRow(wanted);
        row.rowId = -1;
        rows = batch.numRows();
        rowsOut.add((long) rows);
        task.taskMetrics().inputMetrics().incRecordsRead((long) rows);
    }

    /** Of the code of queries, which makes rows in another way. */
    protected void processNext() throws java.io.IOException {}
}
