"""Spark Structured Streaming with foreachBatch and MERGE into a Delta table.

usage: spark_merge.py WORKLOAD TABLE BATCH JARS

Makes the table of WORKLOAD/base with deletion vectors on, then streams
WORKLOAD/batches, a file a trigger, each merged by key. Settings: two threads,
8 GiB, 4 shuffle partitions (twice the threads; 200 is the default and far too
many here), adaptive execution, all else as it comes. Says on standard output
when a batch is done.
"""
import os, shutil, sys

from pyspark.sql import SparkSession

workload, root, batch, jars = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
shutil.rmtree(root, ignore_errors=True)
shutil.rmtree(root + ".checkpoint", ignore_errors=True)
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.memory", "8g")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.jars", ",".join(os.path.join(jars, n) for n in sorted(os.listdir(jars))))
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.shuffle.partitions", "4")
    .config("spark.sql.adaptive.enabled", "true")
    .config("spark.databricks.delta.snapshotPartitions", "2")  # of the log: 50 is for large clusters
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.databricks.delta.properties.defaults.enableDeletionVectors", "true")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
spark.read.parquet(f"{workload}/base").write.format("delta").save(root)


def merge(changes, number):
    changes.createOrReplaceTempView("changes")
    changes.sparkSession.sql(
        f"MERGE INTO delta.`{root}` t USING changes s ON t.id = s.id "
        "WHEN MATCHED AND s.op = 'd' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{c} = s.{c}' for c in columns)} "
        f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(columns)}) VALUES ({', '.join('s.' + c for c in columns)})"
    )
    print(f"MARK {batch}", flush=True)


schema = spark.read.parquet(f"{workload}/batches").schema
columns = [n for n in schema.names if n != "op"]
(
    spark.readStream.schema(schema)
    .option("maxFilesPerTrigger", 1)
    .parquet(f"{workload}/batches")
    .writeStream.foreachBatch(merge)
    .option("checkpointLocation", root + ".checkpoint")
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
spark.stop()
