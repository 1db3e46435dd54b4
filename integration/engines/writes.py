"""writes.py ENGINE changes Delta tables as another engine does, and reads them.

ENGINE is delta-rs, spark with the folder of its jars, or trino with the address of a
server. A request is a line of JSON with "path", "do" and what that takes; the answer is a
line {} or {"error": ...}. Rows are of "columns", or else of the columns id, name, city and
level, as the cases have them; columns that are not named become NULL.

    append rows           rows are [[id, name, city, level], ...]
    delete where          where is SQL
    update set, where     set is {"column": "expression"}
    merge rows            by id: the other columns are set, or the row is inserted
    optimize
    add column            a string that may be NULL
    restore version       not in Trino
    read                  as rows.py has it
    sql text              {path} stands for the table; not in delta-rs
    query text            the same, answered as a read is; not in delta-rs
    comment text
    replace rows          CREATE OR REPLACE TABLE; not in delta-rs
and not in Trino
    overwrite rows
and in delta-rs alone
    vacuum                "hours" overrides what the table says, "full" looks at all files
    zorder column
    checkpoint
    cleanup               cleanup_metadata
    properties set        set is {"name": "value"}
and in Spark alone
    rename from, to       turns on column mapping
    stream checkpoint     the change data that came since the last run, of a stream that
                          begins at version 0, answered as a read of changes is
"""

import glob
import os
import sys

import rows as readers

CASES = ["id", "name", "city", "level"]


def values(rows):
    """The rows of VALUES in SQL."""
    cell = lambda v: "NULL" if v is None else "'" + v.replace("'", "''") + "'" if isinstance(v, str) else repr(v)
    return ", ".join("(" + ", ".join(cell(v) for v in r) + ")" for r in rows)


def merge(table, q):
    """MERGE INTO as Spark and Trino have it."""
    columns = q["columns"]
    return (
        f"MERGE INTO {table} AS t USING (SELECT * FROM (VALUES {values(q['rows'])}) AS v({', '.join(columns)})) AS s ON t.id = s.id"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{c} = s.{c}' for c in columns if c != 'id')}"
        f" WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) VALUES ({', '.join('s.' + c for c in columns)})"
    )


def delta_rs():
    import pyarrow as pa
    from deltalake import DeltaTable, Field, write_deltalake
    from deltalake.schema import PrimitiveType

    read = readers.delta_rs()

    def table_of(q):
        schema = pa.schema(DeltaTable(q["path"]).schema().to_arrow())
        columns = q.get("columns", CASES)
        if q["do"] == "merge":
            schema = pa.schema([schema.field(c) for c in columns])
        return pa.Table.from_pylist([dict(zip(columns, r)) for r in q["rows"]], schema=schema)

    def do(q):
        path, what = q["path"], q["do"]
        if what == "read":
            return read(q)
        if what == "append" or what == "overwrite":
            write_deltalake(path, table_of(q), mode=what)
        elif what == "delete":
            DeltaTable(path).delete(q["where"])
        elif what == "update":
            DeltaTable(path).update(updates=q["set"], predicate=q["where"])
        elif what == "merge":
            columns = {c: "s." + c for c in q["columns"]}
            merger = DeltaTable(path).merge(table_of(q), "t.id = s.id", source_alias="s", target_alias="t")
            merger.when_matched_update({c: v for c, v in columns.items() if c != "id"}).when_not_matched_insert(columns).execute()
        elif what == "optimize":
            DeltaTable(path).optimize.compact()
        elif what == "add":
            DeltaTable(path).alter.add_columns([Field(q["column"], PrimitiveType("string"), nullable=True)])
        elif what == "restore":
            DeltaTable(path).restore(q["version"])
        elif what == "vacuum":
            hours = q.get("hours")
            DeltaTable(path).vacuum(retention_hours=hours, enforce_retention_duration=hours is None, dry_run=False, full=q.get("full", False))
        elif what == "zorder":
            DeltaTable(path).optimize.z_order([q["column"]])
        elif what == "checkpoint":
            DeltaTable(path).create_checkpoint()
        elif what == "cleanup":
            DeltaTable(path).cleanup_metadata()
        elif what == "properties":
            DeltaTable(path).alter.set_table_properties(q["set"], raise_if_not_exists=False)
        elif what == "comment":
            DeltaTable(path).alter.set_table_description(q["text"])
        else:
            raise ValueError(what)

    return do


def spark(jars):
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(glob.glob(os.path.join(jars, "*.jar"))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        # Tables of some rows: plans and code made for large ones are most of the time.
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.sources.parallelPartitionDiscovery.parallelism", "1")  # VACUUM has 10,000 tasks
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", "/tmp/gscd-spark-warehouse")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")

    def kind(t):
        """Delta's name of a type of Spark."""
        match t.typeName():
            case "struct":
                return "struct<" + ",".join(f"{c.name}:{kind(c.dataType)}" for c in t.fields) + ">"
            case "array":
                return f"array<{kind(t.elementType)}>"
            case "map":
                return f"map<{kind(t.keyType)},{kind(t.valueType)}>"
            case "decimal":
                return f"decimal({t.precision},{t.scale})"
        return t.typeName()

    def answer(rows):
        kinds = [kind(c.dataType) for c in rows.schema.fields]
        # Python has no instant before year 1, and Spark gives others by the local clock.
        exact = {"date": f.unix_date, "timestamp": f.unix_micros, "timestamp_ntz": lambda c: f.unix_micros(c.cast("timestamp"))}
        names = rows.columns
        cells = rows.select(*(exact.get(k, lambda c: c)(f.col("`" + n.replace("`", "``") + "`")) for n, k in zip(names, kinds)))
        return {
            "columns": list(zip(names, kinds)),
            "rows": [[readers.text(v, k) for v, k in zip(r, kinds)] for r in cells.collect()],
        }

    def do(q):
        t, what = f"delta.`{q['path']}`", q["do"]
        run = lambda text: session.sql(text).collect()
        columns = ", ".join(q.get("columns", CASES))
        if what == "read" and "changes" in q:
            first, last = q["changes"]
            feed = session.read.format("delta").option("readChangeFeed", "true").option("startingVersion", first).option("endingVersion", last)
            return answer(feed.load(q["path"]).drop("_commit_timestamp"))
        if what == "stream":
            batches = []
            feed = session.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(q["path"])
            sink = feed.writeStream.foreachBatch(lambda rows, _: batches.append(answer(rows.drop("_commit_timestamp"))))
            sink.option("checkpointLocation", q["checkpoint"]).trigger(availableNow=True).start().awaitTermination()
            return {"columns": batches[0]["columns"] if batches else [], "rows": [r for b in batches for r in b["rows"]]}
        if what == "read":
            return answer(session.sql(f"SELECT * FROM {t} VERSION AS OF {q['version']} WHERE {q['where']}"))
        if what == "query":
            return answer(session.sql(q["text"].replace("{path}", t)))
        if what == "append":
            run(f"INSERT INTO {t} ({columns}) VALUES {values(q['rows'])}")
        elif what == "overwrite":
            run(f"INSERT OVERWRITE {t} ({columns}) VALUES {values(q['rows'])}")
        elif what == "delete":
            run(f"DELETE FROM {t} WHERE {q['where']}")
        elif what == "update":
            run(f"UPDATE {t} SET " + ", ".join(f"{k} = {v}" for k, v in q["set"].items()) + f" WHERE {q['where']}")
        elif what == "merge":
            run(merge(t, q))
        elif what == "optimize":
            run(f"OPTIMIZE {t}")
        elif what == "add":
            run(f"ALTER TABLE {t} ADD COLUMNS ({q['column']} STRING)")
        elif what == "restore":
            run(f"RESTORE TABLE {t} TO VERSION AS OF {q['version']}")
        elif what == "comment":
            run(f"ALTER TABLE {t} SET TBLPROPERTIES ('comment' = '{q['text']}')")
        elif what == "rename":
            run(f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
            run(f"ALTER TABLE {t} RENAME COLUMN {q['from']} TO {q['to']}")
        elif what == "replace":
            run(f"CREATE OR REPLACE TABLE {t} USING delta AS SELECT * FROM VALUES {values(q['rows'])} AS v({columns})")
        elif what == "sql":
            run(q["text"].replace("{path}", t))
        else:
            raise ValueError(what)

    return do


def trino(address):
    read = readers.trino(address)

    def do(q):
        what = q["do"]
        if what == "read":
            return read(q)
        t = read.name_of(q["path"])
        if what == "append":
            read.statement(f"INSERT INTO {t} ({', '.join(q.get('columns', CASES))}) VALUES {values(q['rows'])}")
        elif what == "delete":
            read.statement(f"DELETE FROM {t} WHERE {q['where']}")
        elif what == "update":
            read.statement(f"UPDATE {t} SET " + ", ".join(f"{k} = {v}" for k, v in q["set"].items()) + f" WHERE {q['where']}")
        elif what == "merge":
            read.statement(merge(t, q))
        elif what == "optimize":
            read.statement(f"ALTER TABLE {t} EXECUTE optimize")
        elif what == "add":
            read.statement(f"ALTER TABLE {t} ADD COLUMN {q['column']} varchar")
        elif what == "comment":
            read.statement(f"COMMENT ON TABLE {t} IS '{q['text']}'")
        elif what == "replace":
            columns = ", ".join(q.get("columns", CASES))
            read.statement(f"CREATE OR REPLACE TABLE {t} AS SELECT * FROM (VALUES {values(q['rows'])}) AS v({columns})")
        elif what == "sql":
            read.statement(q["text"].replace("{path}", t))
        elif what == "query":
            return read.query(q["text"].replace("{path}", t))
        else:
            raise ValueError(what)

    return do


ENGINES = {"delta-rs": delta_rs, "spark": spark, "trino": trino}

if __name__ == "__main__":
    readers.serve(ENGINES[sys.argv[1]], *sys.argv[2:])
