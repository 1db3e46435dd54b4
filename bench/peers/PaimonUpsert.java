import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Upserts of change batches into a Paimon table by Flink, a job a batch on a session
 * cluster in this process, with deletion vectors and compaction as Paimon does them by
 * default.
 *
 * <p>usage: PaimonUpsert WORKLOAD WAREHOUSE BATCH. Reads WORKLOAD/csv/base.csv and
 * WORKLOAD/csv/batches.csv (column b is the batch), which it loads into Paimon tables
 * before the first batch. Says on standard output when a batch is done, and at the end
 * writes the rows to WORKLOAD/paimon-rows.
 */
public final class PaimonUpsert {
  private static final List<String> COLUMNS = List.of("id", "customer", "status", "city", "amount", "price", "name", "note", "quantity", "updated_at");
  private static final String TYPED =
      "id BIGINT, customer BIGINT, status STRING, city STRING, amount BIGINT, price DOUBLE, name STRING, note STRING, quantity BIGINT, updated_at STRING, op STRING";

  public static void main(String[] args) throws Exception {
    String workload = args[0], warehouse = args[1];
    Configuration conf = new Configuration();
    conf.setString("rest.bind-port", "0");
    conf.setString("rest.address", "127.0.0.1");
    conf.setString("rest.bind-address", "127.0.0.1");
    conf.setString("taskmanager.numberOfTaskSlots", "2");
    conf.setString("taskmanager.memory.managed.size", "1g");
    conf.setString("taskmanager.memory.network.min", "256m");
    conf.setString("taskmanager.memory.network.max", "256m");
    try (MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(conf).setNumTaskManagers(1).setNumSlotsPerTaskManager(2).build())) {
      cluster.start();
      Configuration client = new Configuration();
      client.setString("execution.target", "remote");
      client.setString("rest.address", "127.0.0.1");
      client.setString("rest.port", String.valueOf(cluster.getRestAddress().get().getPort()));
      client.setString("parallelism.default", "2");
      TableEnvironment env = TableEnvironment.create(EnvironmentSettings.newInstance().inBatchMode().withConfiguration(client).build());
      run(env, workload, warehouse, Long.parseLong(args[2]));
    }
  }

  private static void run(TableEnvironment env, String workload, String warehouse, long batch) throws Exception {
    env.executeSql("CREATE CATALOG paimon WITH ('type' = 'paimon', 'warehouse' = 'file:" + warehouse + "')");
    env.executeSql("USE CATALOG paimon");
    String columns = String.join(", ", COLUMNS) + ", op";
    env.executeSql("CREATE TABLE t (" + TYPED + ", PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'deletion-vectors.enabled' = 'true', 'rowkind.field' = 'op', 'file.format' = 'parquet')");
    env.executeSql("CREATE TABLE changes (b INT, " + TYPED + ") PARTITIONED BY (b) WITH ('file.format' = 'parquet')");
    env.executeSql("CREATE TEMPORARY TABLE base_csv (" + TYPED + ") WITH ('connector' = 'filesystem', 'format' = 'csv', 'csv.null-literal' = '\\N', 'path' = 'file:" + workload + "/csv/base.csv')");
    env.executeSql("CREATE TEMPORARY TABLE changes_csv (b INT, " + TYPED + ") WITH ('connector' = 'filesystem', 'format' = 'csv', 'csv.null-literal' = '\\N', 'path' = 'file:" + workload + "/csv/batches.csv')");
    env.executeSql("INSERT INTO t SELECT " + columns + " FROM base_csv").await();
    env.executeSql("INSERT INTO changes SELECT b, " + columns + " FROM changes_csv").await();
    long batches;
    try (var files = Files.list(Path.of(workload, "batches"))) {
      batches = files.count();
    }
    for (long n = 0; n < batches; n++) {
      env.executeSql("INSERT INTO t SELECT " + columns + " FROM changes WHERE b = " + n).await();
      System.out.println("MARK " + batch);
      System.out.flush();
    }
    String rows = COLUMNS.stream().map(c -> "`" + c + "`").collect(Collectors.joining(", "));
    env.executeSql("CREATE TEMPORARY TABLE rows_csv (" + TYPED.replace(", op STRING", "") + ") WITH ('connector' = 'filesystem', 'format' = 'csv', 'csv.null-literal' = '\\N', 'path' = 'file:" + workload + "/paimon-rows')");
    env.executeSql("INSERT INTO rows_csv SELECT " + rows + " FROM t").await();
  }

  private PaimonUpsert() {}
}
