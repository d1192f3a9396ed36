/** Writes the rows of one partition, and gives back what the task says of it: one row with the message to be committed. */
public Object generate(Object[] references) {
    return new TopicWriter(references);
}

final class TopicWriter extends org.apache.spark.sql.execution.BufferedRowIterator {
    private final Object[] references;
    private final org.apache.spark.TaskContext task = org.apache.spark.TaskContext.get();
    private Worker worker;
    private scala.collection.Iterator answers;
    private byte[] message;
    private boolean given;

    public TopicWriter(Object[] references) {
        this.references = references;
    }

    public void init(int index, scala.collection.Iterator[] inputs) {
        partitionIndex = index;
        org.apache.spark.sql.types.StructType schema = (org.apache.spark.sql.types.StructType) references[2];
        // What is shown of Python's work; what is not shown is counted as well.
        scala.collection.immutable.Map metrics = (scala.collection.immutable.Map)
            org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric.pythonMetrics()
            .concat((scala.collection.IterableOnce) references[6]);
        worker = new Worker(schema,
            ((org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource) references[0])
            .createMapInBatchEvaluatorFactory((byte[]) references[1], "write_to_data_source", schema,
                org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource.writeOutputSchema(),
                metrics, (scala.Option) references[3], (scala.Option) references[4]));
        task.addTaskCompletionListener(worker);
        answers = worker.compute(
            scala.collection.Iterator$.MODULE$.single(inputs[0]), task.partitionId(), task);
    }

    /** Takes everything that Python answers, which makes it write everything. */
    public boolean hasNext() throws java.io.IOException {
        if (message != null) {
            return !given;
        }
        while (answers.hasNext()) {
            org.apache.spark.sql.vectorized.ColumnarBatch batch =
                (org.apache.spark.sql.vectorized.ColumnarBatch) answers.next();
            org.apache.spark.sql.vectorized.ColumnVector messages =
                ((org.apache.spark.sql.vectorized.ArrowColumnVector) batch.column(0)).getChild(0);
            for (int at = 0; at < batch.numRows(); at++) {
                if (message != null) {
                    throw new IllegalStateException("A task has ended its write twice.");
                }
                message = messages.getBinary(at);
            }
        }
        if (message == null) {
            throw new IllegalStateException("A task has not ended its write.");
        }
        task.taskMetrics().outputMetrics().setRecordsWritten(worker.written);
        ((org.apache.spark.sql.execution.metric.SQLMetric) references[5]).add(worker.written);
        ((org.apache.spark.util.CollectionAccumulator) references[7]).add(message);
        return true;
    }

    public InternalRow next() {
        given = true;
        return new org.apache.spark.sql.catalyst.expressions.GenericInternalRow(new Object[] {message});
    }

    /** Of the code of queries, which makes rows in another way. */
    protected void processNext() throws java.io.IOException {}
}

/** Hands rows to a Python worker as record batches. Spark would do the same, value by value and byte array by byte array. */
final class Worker extends org.apache.spark.sql.execution.python.ArrowPythonRunner
        implements org.apache.spark.util.TaskCompletionListener {
    /** Java's arrays and Arrow's offsets end at twice that. */
    private static final long BATCH_BYTES_MAX = 1L << 30;

    long written;
    private final org.apache.spark.sql.catalyst.expressions.UnsafeProjection projection;
    private scala.collection.Iterator rows;
    private boolean closed;
    private org.apache.arrow.vector.complex.StructVector all;
    /** A column is written by one of these. */
    private Texts[] texts;
    private org.apache.spark.sql.execution.arrow.ArrowFieldWriter[] others;

    Worker(org.apache.spark.sql.types.StructType schema,
            org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory factory) {
        super(
            factory.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$chainedFunc,
            factory.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$pythonEvalType,
            new int[][] {{0}},
            new org.apache.spark.sql.types.StructType().add("struct", schema),
            factory.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$sessionLocalTimeZone,
            factory.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$largeVarTypes,
            factory.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$pythonRunnerConf,
            factory.pythonMetrics(),
            factory.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$jobArtifactUUID,
            factory.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$sessionUUID);
        projection = org.apache.spark.sql.catalyst.expressions.UnsafeProjection.create(schema);
    }

    /** Called whenever Python may want more. Whether there was more. */
    public boolean writeNextBatchToArrowStream(org.apache.arrow.vector.VectorSchemaRoot root,
            org.apache.arrow.vector.ipc.ArrowStreamWriter writer, java.io.DataOutputStream out,
            scala.collection.Iterator input) {
        if (rows == null) {
            rows = (scala.collection.Iterator) input.next();
            findColumns(root);
        }
        if (!rows.hasNext()) {
            closed = true;
            close();
            return false;
        }
        int before = out.size();
        int count = fill();
        root.setRowCount(count);
        all.getValidityBuffer().setOne(0L, (long) ((count + 7) / 8));
        org.apache.arrow.vector.ipc.message.ArrowRecordBatch batch = unloader().getRecordBatch();
        try {
            org.apache.arrow.vector.ipc.message.MessageSerializer.serialize(
                new org.apache.arrow.vector.ipc.WriteChannel(java.nio.channels.Channels.newChannel(out)), batch);
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        } finally {
            batch.close();
        }
        written += count;
        ((org.apache.spark.sql.execution.metric.SQLMetric) pythonMetrics().apply("pythonDataSent"))
            .add((long) (out.size() - before));
        return true;
    }

    /** A task that fails before its last row leaves memory behind that is not Java's. */
    public void onTaskCompletion(org.apache.spark.TaskContext task) {
        if (!closed && writer() != null) {
            root().close();
            allocator().close();
        }
    }

    private void findColumns(org.apache.arrow.vector.VectorSchemaRoot root) {
        all = (org.apache.arrow.vector.complex.StructVector) root.getVector(0);
        java.util.List vectors = all.getChildrenFromFields();
        texts = new Texts[vectors.size()];
        others = new org.apache.spark.sql.execution.arrow.ArrowFieldWriter[vectors.size()];
        for (int at = 0; at < texts.length; at++) {
            Object vector = vectors.get(at);
            if (vector instanceof org.apache.arrow.vector.BaseVariableWidthVector) {
                texts[at] = new Texts((org.apache.arrow.vector.BaseVariableWidthVector) vector);
            } else {
                ((org.apache.arrow.vector.ValueVector) vector).allocateNew();
                others[at] = org.apache.spark.sql.execution.arrow.ArrowWriter$.MODULE$.createFieldWriter(
                    (org.apache.arrow.vector.ValueVector) vector);
            }
        }
    }

    /** Fills the vectors with the rows of one batch. */
    private int fill() {
        for (int at = 0; at < texts.length; at++) {
            if (texts[at] != null) {
                texts[at].begin();
            } else {
                others[at].reset();
            }
        }
        int count = 0;
        int countMax = maxRecordsPerBatch();
        long bytes = 0;
        long bytesMax = Math.min(maxBytesPerBatch(), BATCH_BYTES_MAX);
        while (count < countMax && bytes < bytesMax && rows.hasNext()) {
            Object next = rows.next();
            UnsafeRow row = next instanceof UnsafeRow ? (UnsafeRow) next : projection.apply((InternalRow) next);
            for (int at = 0; at < texts.length; at++) {
                if (texts[at] != null) {
                    texts[at].put(row, at);
                } else {
                    others[at].write(row, at);
                }
            }
            bytes += row.getSizeInBytes();
            count++;
        }
        for (int at = 0; at < texts.length; at++) {
            if (texts[at] != null) {
                texts[at].finish();
            } else {
                others[at].finish();
            }
        }
        return count;
    }
}

/** A column of strings or bytes: what lies in a row is copied to where Arrow keeps it, and that is all. */
final class Texts {
    private static final int ROWS = 1024;
    private static final long BYTES = 64 * ROWS;

    private final org.apache.arrow.vector.BaseVariableWidthVector vector;
    private long validity;
    private long offsets;
    private long data;
    private int rowsMax;
    private long bytesMax;
    private int rows;
    private long bytes;

    Texts(org.apache.arrow.vector.BaseVariableWidthVector vector) {
        this.vector = vector;
        vector.allocateNew(BYTES, ROWS);
    }

    void begin() {
        vector.getValidityBuffer().setZero(0L, vector.getValidityBuffer().capacity());
        locate();
        rows = 0;
        bytes = 0;
        Platform.putInt(null, offsets, 0);
    }

    private void locate() {
        validity = vector.getValidityBuffer().memoryAddress();
        offsets = vector.getOffsetBuffer().memoryAddress();
        data = vector.getDataBuffer().memoryAddress();
        rowsMax = (int) Math.min(8 * vector.getValidityBuffer().capacity(), vector.getOffsetBuffer().capacity() / 4 - 1);
        bytesMax = vector.getDataBuffer().capacity();
    }

    void put(UnsafeRow row, int column) {
        if (rows == rowsMax) {
            vector.reallocValidityAndOffsetBuffers();
            locate();
        }
        if (!row.isNullAt(column)) {
            long place = row.getLong(column);
            int size = (int) place;
            if (bytes + size > bytesMax) {
                vector.reallocDataBuffer(bytes + size);
                locate();
            }
            Platform.copyMemory(row.getBaseObject(), row.getBaseOffset() + (place >>> 32), null, data + bytes, (long) size);
            bytes += size;
            long mark = validity + (rows >>> 3);
            Platform.putByte(null, mark, (byte) (Platform.getByte(null, mark) | 1 << (rows & 7)));
        }
        rows++;
        Platform.putInt(null, offsets + 4L * rows, (int) bytes);
    }

    void finish() {
        vector.setLastSet(rows - 1);
        vector.setValueCount(rows);
    }
}
