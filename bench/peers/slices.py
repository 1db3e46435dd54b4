"""Makes two days of a slice, and merges the second into the first by a peer of gscd load.

usage: slices.py make DIR ROWS      day1.parquet, day2.parquet: 0.8 % changed, 0.1 % new, 0.1 % gone
       slices.py deltars DIR        delta-rs MERGE of day2 into a table of day1
       slices.py spark DIR JARS     the same by Spark with Delta
Prints seconds: with the start of the engine left out, and the table of day 1 made before.
"""
import os, shutil, sys, time

ROW = "id, customer, status, city, amount, price, name, updated_at"


def make(root, rows):
    import duckdb

    os.makedirs(root, exist_ok=True)
    row = f"""SELECT i AS id, i * 7919 % 100000 AS customer, ['new','paid','sent','done'][(i + v) % 4 + 1] AS status,
      ['Beijing','Hangzhou','Wuhan','Shanghai','Chengdu','Nanjing','Xian','Suzhou'][i % 8 + 1] AS city,
      CAST((i % 100000 + v) AS DECIMAL(12,2)) AS amount, i % 1000 + 0.25::DOUBLE AS price, 'customer ' || (i % 5000) AS name,
      TIMESTAMPTZ '2022-07-16 00:00:00+00' + INTERVAL (i + v) SECOND AS updated_at"""
    day1 = f"{row} FROM (SELECT range AS i, 0 AS v FROM range({rows}))"
    day2 = f"{row} FROM (SELECT range AS i, CASE WHEN range % 125 = 7 THEN 1 ELSE 0 END AS v FROM range({rows} + {rows} // 1000) WHERE range % 1000 <> 3 OR range >= {rows})"
    duckdb.sql("SET TimeZone = 'UTC'")
    for name, query in (("day1", day1), ("day2", day2)):
        duckdb.sql(f"COPY ({query}) TO '{root}/{name}.parquet' (FORMAT parquet)")


def differs(columns, a, b):
    return " OR ".join(f"({a}.{c} IS DISTINCT FROM {b}.{c})" for c in columns)


def deltars(root):
    import pyarrow.parquet as pq
    from deltalake import DeltaTable, write_deltalake

    at = f"{root}/deltars"
    shutil.rmtree(at, ignore_errors=True)
    write_deltalake(at, pq.read_table(f"{root}/day1.parquet"))
    began = time.perf_counter()
    source = pq.read_table(f"{root}/day2.parquet")
    columns = [c for c in source.column_names if c != "id"]
    metrics = (
        DeltaTable(at)
        .merge(source, predicate="t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_update_all(predicate=differs(columns, "t", "s"))
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete()
        .execute()
    )
    took = time.perf_counter() - began
    counts = [metrics[k] for k in ("num_target_rows_inserted", "num_target_rows_updated", "num_target_rows_deleted")]
    print(f"delta-rs MERGE: {took:.2f} s; inserted, updated, deleted: {counts}", flush=True)


def spark(root, jars):
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]").config("spark.jars", ",".join(os.path.join(jars, j) for j in os.listdir(jars) if j.endswith(".jar")))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.ui.enabled", "false").config("spark.sql.warehouse.dir", os.path.abspath(f"{root}/warehouse")).config("spark.driver.memory", "2g").config("spark.sql.shuffle.partitions", "8")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    at = f"{root}/spark"
    shutil.rmtree(at, ignore_errors=True)
    session.read.parquet(f"{root}/day1.parquet").write.format("delta").option("delta.enableDeletionVectors", "true").save(at)
    session.sql(f"CREATE TABLE slices_target USING delta LOCATION '{os.path.abspath(at)}'")
    session.read.parquet(f"{root}/day2.parquet").createOrReplaceTempView("s")
    columns = [c.strip() for c in ROW.split(",")][1:]
    began = time.perf_counter()
    differ = " OR ".join(f"NOT (t.{c} <=> s.{c})" for c in columns)
    done = session.sql(f"""MERGE INTO slices_target t USING s ON t.id = s.id
      WHEN MATCHED AND ({differ}) THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE""").collect()
    took = time.perf_counter() - began
    print(f"Spark MERGE: {took:.2f} s; {done[0].asDict()}", flush=True)


{"make": lambda: make(sys.argv[2], int(sys.argv[3])), "deltars": lambda: deltars(sys.argv[2]), "spark": lambda: spark(sys.argv[2], sys.argv[3])}[sys.argv[1]]()
