import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.util.Collector;
import org.apache.iceberg.DistributionMode;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.flink.CatalogLoader;
import org.apache.iceberg.flink.FlinkSchemaUtil;
import org.apache.iceberg.flink.TableLoader;
import org.apache.iceberg.flink.sink.FlinkSink;
import org.apache.iceberg.flink.sink.IcebergSink;
import org.apache.iceberg.flink.sink.dynamic.DynamicIcebergSink;
import org.apache.iceberg.flink.sink.dynamic.DynamicRecord;
import org.apache.iceberg.flink.sink.dynamic.DynamicRecordGenerator;
import org.apache.iceberg.types.Types;

/**
 * Flink jobs on a mini cluster, each of which writes what it is told to one table. A command a line on standard input,
 * its words apart by tabs; an answer a line on standard output, beginning with "ok" or "failed".
 *
 * <p>The arguments are a folder for checkpoints and a file with the properties of the catalog.
 */
public final class FlinkJobs {
  /** Rows on their way into each job, for its source, which runs in this process. */
  private static final Map<String, BlockingQueue<String>> WAITING = new ConcurrentHashMap<>();

  private static final Schema SCHEMA =
      new Schema(
          Types.NestedField.required(1, "id", Types.LongType.get()),
          Types.NestedField.optional(2, "name", Types.StringType.get()));

  private final Map<String, JobID> running = new HashMap<>();
  private final Map<String, String> tables = new HashMap<>();
  private final MiniCluster cluster;
  private final CatalogLoader catalog;
  private final Path folder;

  private FlinkJobs(MiniCluster cluster, CatalogLoader catalog, Path folder) {
    this.cluster = cluster;
    this.catalog = catalog;
    this.folder = folder;
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err);
    Properties given = new Properties();
    try (var properties = java.nio.file.Files.newBufferedReader(Path.of(arguments[1]))) {
      given.load(properties);
    }
    Map<String, String> behind = new HashMap<>();
    given.forEach((name, value) -> behind.put(name.toString(), value.toString()));
    CatalogLoader catalog =
        CatalogLoader.custom(
            behind.remove("name"),
            behind,
            new org.apache.hadoop.conf.Configuration(),
            "org.apache.iceberg.jdbc.JdbcCatalog");
    Configuration configuration = new Configuration();
    configuration.set(CheckpointingOptions.MAX_RETAINED_CHECKPOINTS, 9);
    var settings = new MiniClusterConfiguration.Builder().setConfiguration(configuration).setNumSlotsPerTaskManager(4);
    try (MiniCluster cluster = new MiniCluster(settings.build())) {
      cluster.start();
      FlinkJobs jobs = new FlinkJobs(cluster, catalog, Path.of(arguments[0]));
      answers.println("ok");
      BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String line = commands.readLine(); line != null; line = commands.readLine()) {
        String answer;
        try {
          answer = "ok\t" + jobs.answer(line.split("\t", -1));
        } catch (Exception error) {
          error.printStackTrace();
          answer = "failed\t" + causes(error);
        }
        answers.println(answer.replace('\n', ' '));
      }
    }
    System.exit(0);
  }

  private String answer(String[] words) throws Exception {
    String job = words[1];
    switch (words[0]) {
      case "start":
        return start(job, words[2], words[3], words[4].equals("upsert"), words[5]);
      case "write":
        for (String row : words[2].split(",")) {
          WAITING.get(job).add(row);
        }
        return "";
      case "checkpoint":
        return checkpoint(job);
      case "kill":
        cluster.cancelJob(running.get(job)).get(60, TimeUnit.SECONDS);
        return ended(job);
      case "stop":
        return cluster
            .stopWithSavepoint(
                running.get(job),
                folder.resolve("savepoints").toUri().toString(),
                false,
                org.apache.flink.core.execution.SavepointFormatType.CANONICAL)
            .get(60, TimeUnit.SECONDS);
      default:
        throw new IllegalArgumentException("unknown command " + words[0]);
    }
  }

  private String start(String job, String sink, String table, boolean isUpsert, String from) throws Exception {
    Configuration configuration = new Configuration();
    configuration.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
    configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.toUri().toString());
    configuration.set(
        CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
    configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
    environment.setParallelism(1);
    // Checkpoints are asked for, and none comes by itself.
    environment.enableCheckpointing(24L * 60 * 60 * 1000);
    WAITING.put(job, new LinkedBlockingQueue<>());
    tables.put(job, table);
    DataStream<RowData> rows =
        environment
            .addSource(new Told(job), "told", InternalTypeInfo.of(FlinkSchemaUtil.convert(SCHEMA)))
            .uid("told");
    write(rows, sink, TableIdentifier.parse(table), isUpsert);
    JobGraph graph = environment.getStreamGraph().getJobGraph();
    if (!from.isEmpty()) {
      graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(from, false));
    }
    running.put(job, graph.getJobID());
    cluster.submitJob(graph).get(60, TimeUnit.SECONDS);
    awaitTasks(job);
    return graph.getJobID().toString();
  }

  private void write(DataStream<RowData> rows, String sink, TableIdentifier table, boolean isUpsert) {
    TableLoader loader = TableLoader.fromCatalog(catalog, table);
    List<String> keys = isUpsert ? List.of("id") : List.of();
    switch (sink) {
      case "FlinkSink":
        FlinkSink.forRowData(rows)
            .tableLoader(loader)
            .upsert(isUpsert)
            .equalityFieldColumns(keys)
            .uidPrefix("lake")
            .append();
        return;
      case "IcebergSink":
        IcebergSink.forRowData(rows)
            .tableLoader(loader)
            .upsert(isUpsert)
            .equalityFieldColumns(keys)
            .uidSuffix("lake")
            .append();
        return;
      case "DynamicIcebergSink":
        DynamicIcebergSink.forInput(rows)
            .generator(new OneTable(table.toString()))
            .catalogLoader(catalog)
            .uidPrefix("lake")
            .append();
        return;
      default:
        throw new IllegalArgumentException("unknown sink " + sink);
    }
  }

  /** Waits until every task runs: a sink commits what its checkpoint holds before that, or fails. */
  private void awaitTasks(String job) throws Exception {
    for (int look = 0; look < 600; look++) {
      var graph = cluster.getExecutionGraph(running.get(job)).get(60, TimeUnit.SECONDS);
      refuseFailed(job);
      boolean areRunning = true;
      for (var vertex : graph.getAllExecutionVertices()) {
        areRunning &= vertex.getExecutionState().name().equals("RUNNING");
      }
      if (areRunning && graph.getState() == JobStatus.RUNNING) {
        return;
      }
      Thread.sleep(50);
    }
    throw new IllegalStateException("the job's tasks do not run after 30 seconds");
  }

  /** Takes a checkpoint of all rows so far, waits until its rows are committed and returns where it is. */
  private String checkpoint(String job) throws Exception {
    while (!WAITING.get(job).isEmpty()) {
      refuseFailed(job);
      Thread.sleep(20);
    }
    JobID id = running.get(job);
    long number;
    try {
      number = cluster.triggerCheckpoint(id, CheckpointType.FULL).get(60, TimeUnit.SECONDS);
    } catch (ExecutionException error) {
      // Of a job that fails meanwhile, the checkpoint says nothing of the cause.
      ended(job);
      refuseFailed(job);
      throw error;
    }
    for (int look = 0; look < 600; look++) {
      refuseFailed(job);
      if (isCommitted(job, number)) {
        return folder.resolve(id.toString()).resolve("chk-" + number).toUri().toString();
      }
      Thread.sleep(50);
    }
    throw new IllegalStateException("checkpoint " + number + " was not committed in 30 seconds");
  }

  private boolean isCommitted(String job, long checkpoint) {
    Table table = catalog.loadCatalog().loadTable(TableIdentifier.parse(tables.get(job)));
    Snapshot head = table.currentSnapshot();
    return head != null
        && running.get(job).toString().equals(head.summary().get("flink.job-id"))
        && Long.parseLong(head.summary().get("flink.max-committed-checkpoint-id")) >= checkpoint;
  }

  private void refuseFailed(String job) throws Exception {
    if (cluster.getJobStatus(running.get(job)).get(60, TimeUnit.SECONDS) == JobStatus.FAILED) {
      var failure = cluster.getExecutionGraph(running.get(job)).get().getFailureInfo();
      throw new IllegalStateException(failure.getExceptionAsString());
    }
  }

  private String ended(String job) throws Exception {
    while (!cluster.getJobStatus(running.get(job)).get(60, TimeUnit.SECONDS).isGloballyTerminalState()) {
      Thread.sleep(20);
    }
    return cluster.getJobStatus(running.get(job)).get().toString();
  }

  /** The lines of a failure that say why, without its places in the code. */
  private static String causes(Throwable error) {
    StringBuilder found = new StringBuilder();
    for (String line : String.valueOf(error.getMessage()).split("\n")) {
      if (!line.startsWith("\t")) {
        found.append(line).append(' ');
      }
    }
    return found.length() == 0 ? error.toString() : found.toString();
  }

  /** Rows that commands told: {@code id:name}. */
  private static final class Told implements SourceFunction<RowData> {
    private final String job;
    private volatile boolean isRunning = true;

    Told(String job) {
      this.job = job;
    }

    @Override
    public void run(SourceContext<RowData> context) throws Exception {
      BlockingQueue<String> waiting = WAITING.get(job);
      while (isRunning) {
        synchronized (context.getCheckpointLock()) {
          for (String row = waiting.peek(); row != null; row = waiting.peek()) {
            String[] parts = row.split(":");
            context.collect(GenericRowData.of(Long.valueOf(parts[0]), StringData.fromString(parts[1])));
            waiting.remove();
          }
        }
        Thread.sleep(10);
      }
    }

    @Override
    public void cancel() {
      isRunning = false;
    }
  }

  /** Every row goes to one table, by append. */
  private static final class OneTable implements DynamicRecordGenerator<RowData> {
    private final String table;

    OneTable(String table) {
      this.table = table;
    }

    @Override
    public void generate(RowData row, Collector<DynamicRecord> out) {
      out.collect(
          new DynamicRecord(
              TableIdentifier.parse(table),
              "main",
              SCHEMA,
              row,
              PartitionSpec.unpartitioned(),
              DistributionMode.NONE,
              1));
    }
  }
}
