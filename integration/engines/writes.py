"""writes.py ENGINE changes Delta tables as another engine does.

ENGINE is delta-rs or spark. A request is a line of JSON with "path", "do" and what that
takes; the answer is a line {} or {"error": ...}. Rows are of the columns id, name, city
and level, as the cases have them.

    append rows           rows are [[id, name, city, level], ...]
    delete where          where is SQL
    update set, where     set is {"column": "expression"}
    optimize
    add column            a string that may be NULL
    restore version
    overwrite rows
    comment text
and in Spark alone
    rename from, to       turns on column mapping
    replace rows          CREATE OR REPLACE TABLE
    sql text              {path} stands for the table
"""

import glob
import json
import os
import sys


def delta_rs():
    import pyarrow as pa
    from deltalake import DeltaTable, Field, write_deltalake
    from deltalake.schema import PrimitiveType

    def rows_of(path, rows):
        types = {f.name: f.type.type for f in DeltaTable(path).schema().fields}
        arrow = {"string": pa.string(), "long": pa.int64(), "integer": pa.int32()}
        names = ["id", "name", "city", "level"]
        columns = [[r[i] for r in rows] for i in range(len(names))]
        return pa.table({n: pa.array(c, arrow[types[n]]) for n, c in zip(names, columns)})

    def do(q):
        path, what = q["path"], q["do"]
        if what == "append" or what == "overwrite":
            write_deltalake(path, rows_of(path, q["rows"]), mode=what)
        elif what == "delete":
            DeltaTable(path).delete(q["where"])
        elif what == "update":
            DeltaTable(path).update(updates=q["set"], predicate=q["where"])
        elif what == "optimize":
            DeltaTable(path).optimize.compact()
        elif what == "add":
            DeltaTable(path).alter.add_columns([Field(q["column"], PrimitiveType("string"), nullable=True)])
        elif what == "restore":
            DeltaTable(path).restore(q["version"])
        elif what == "comment":
            DeltaTable(path).alter.set_table_description(q["text"])
        else:
            raise ValueError(what)

    return do


def spark(jars):
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(glob.glob(os.path.join(jars, "*.jar"))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", "/tmp/gscd-spark-warehouse")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")

    def values(rows):
        return ", ".join("(" + ", ".join("NULL" if v is None else repr(v) for v in r) + ")" for r in rows)

    def do(q):
        t, what = f"delta.`{q['path']}`", q["do"]
        run = lambda text: session.sql(text).collect()
        if what == "append":
            run(f"INSERT INTO {t} (id, name, city, level) VALUES {values(q['rows'])}")
        elif what == "overwrite":
            run(f"INSERT OVERWRITE {t} (id, name, city, level) VALUES {values(q['rows'])}")
        elif what == "delete":
            run(f"DELETE FROM {t} WHERE {q['where']}")
        elif what == "update":
            run(f"UPDATE {t} SET " + ", ".join(f"{k} = {v}" for k, v in q["set"].items()) + f" WHERE {q['where']}")
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
            run(f"CREATE OR REPLACE TABLE {t} USING delta AS SELECT * FROM VALUES {values(q['rows'])} AS v(id, name, city, level)")
        elif what == "sql":
            run(q["text"].replace("{path}", t))
        else:
            raise ValueError(what)

    return do


def main():
    do = delta_rs() if sys.argv[1] == "delta-rs" else spark(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the engines print is no answer
    for line in sys.stdin:
        try:
            do(json.loads(line))
            out = {}
        except Exception as e:
            out = {"error": f"{type(e).__name__}: {e}"[:2000]}
        answers.write(json.dumps(out) + "\n")
        answers.flush()


main()
