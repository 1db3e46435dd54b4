"""rows.py ENGINE answers requests for the rows of a version of a table.

ENGINE is delta-rs, polars, duckdb, clickhouse, or trino with the address of a server.
A request is a line of JSON, {"path": ..., "version": n}, perhaps with "where", a
condition in the engine's own SQL, and "types", the Delta types of the columns, for
engines whose own types tell less; or with "changes": [from, to] instead of a version,
for the change data of those versions without the time of the commit. The answer is a line
{"columns": [[name, type], ...], "rows": [[cell, ...], ...]} or {"error": ...}. Types are
Delta's. A cell is null or a text that holds the value exactly:

    boolean                      true, false
    integers, date, timestamps   the integer: days or microseconds since 1970
    float, double                the bits of the IEEE 754 number in hex
    decimal                      all digits behind the point: -0.10
    string                       itself
    binary                       hex
    struct, array, map           a list of cells as JSON; a map's is [key, value, ...], by key
"""

import base64
import datetime
import decimal
import glob
import hashlib
import json
import math
import os
import shutil
import struct
import sys
import tempfile
import time
import urllib.request

EPOCH = datetime.datetime(1970, 1, 1)
EXACTLY = decimal.Context(prec=80, traps=[decimal.Inexact, decimal.InvalidOperation])
MICROSECOND = datetime.timedelta(microseconds=1)


def arrow_type(t):
    """Delta's name of an Arrow type."""
    import pyarrow as pa

    if pa.types.is_decimal(t):
        return f"decimal({t.precision},{t.scale})"
    if pa.types.is_timestamp(t):
        if t.unit != "us":
            raise ValueError(f"timestamps in {t.unit}")
        return "timestamp_ntz" if t.tz is None else "timestamp"
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return "string"
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return "binary"
    if pa.types.is_map(t):
        return f"map<{arrow_type(t.key_type)},{arrow_type(t.item_type)}>"
    if pa.types.is_struct(t):
        return "struct<" + ",".join(f"{f.name}:{arrow_type(f.type)}" for f in t) + ">"
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_list_view(t):
        return f"array<{arrow_type(t.value_type)}>"
    return {
        pa.bool_(): "boolean",
        pa.int8(): "byte",
        pa.int16(): "short",
        pa.int32(): "integer",
        pa.int64(): "long",
        pa.uint64(): "long",  # versions in delta-rs's change data
        pa.float32(): "float",
        pa.float64(): "double",
        pa.date32(): "date",
    }[t]


def split(text):
    """The parts between the commas of a type that are in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def text(v, kind):
    """The cell of a Python value."""
    if v is None:
        return None
    if kind == "boolean":
        return "true" if v else "false"
    if kind in ("float", "double") and v != v:
        v = math.nan  # one is like another
    if kind == "float":
        return struct.pack(">f", v).hex()
    if kind == "double":
        return struct.pack(">d", v).hex()
    if kind == "binary":
        return bytes(v).hex()
    if kind.startswith("decimal"):
        scale = int(kind[:-1].partition(",")[2])
        return format(v.quantize(decimal.Decimal(1).scaleb(-scale), context=EXACTLY), "f")
    if kind == "date" and isinstance(v, datetime.date):
        return str(v.toordinal() - EPOCH.toordinal())
    if kind.startswith("timestamp") and isinstance(v, datetime.datetime):
        if v.tzinfo is not None:
            v = v.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return str((v - EPOCH) // MICROSECOND)
    if kind.endswith(">"):
        return json.dumps(parts(v, kind), separators=(",", ":"), ensure_ascii=False)
    return str(v)


def parts(v, kind):
    of = split(kind[kind.index("<") + 1 : -1])
    if kind.startswith("array"):
        return [text(e, of[0]) for e in v]
    if kind.startswith("map"):
        pairs = sorted((text(k, of[0]), text(e, of[1])) for k, e in (v.items() if isinstance(v, dict) else v))
        return [cell for pair in pairs for cell in pair]
    values = v.values() if isinstance(v, dict) else v
    return [text(e, k.partition(":")[2]) for e, k in zip(values, of)]


def arrow_answer(table):
    import pyarrow as pa

    kinds = [arrow_type(t) for t in table.schema.types]
    columns = []
    for column, kind in zip(table.columns, kinds):
        if kind.startswith("timestamp"):  # Python has no instant before year 1
            column = column.cast(pa.int64())
        elif kind == "date":
            column = column.cast(pa.int32())
        columns.append([text(v, kind) for v in column.to_pylist()])
    return {"columns": list(zip(table.schema.names, kinds)), "rows": list(zip(*columns))}


def delta_rs():
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    def read(q):
        if "changes" in q:
            first, last = q["changes"]
            changes = pa.table(DeltaTable(q["path"]).load_cdf(starting_version=first, ending_version=last).read_all())
            return arrow_answer(changes.drop_columns(["_commit_timestamp"]))
        # to_pyarrow_table refuses tables with deletion vectors.
        query = QueryBuilder().register("t", DeltaTable(q["path"], version=q["version"]))
        return arrow_answer(pa.table(query.execute(f"select * from t where {q['where']}").read_all()))

    return read


def polars():
    import polars as pl

    def read(q):
        if " " not in q["path"]:
            return of(q["path"], q)
        # It looks for a folder with %20 in its name, behind a symbolic link too.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table")
            shutil.copytree(q["path"], path, copy_function=os.link)
            return of(path, q)

    def of(path, q):
        rows = pl.scan_delta(path, version=q["version"])
        if q["where"] != "true":
            rows = rows.filter(pl.sql_expr(q["where"]))
        return arrow_answer(rows.collect().to_arrow())

    return read


def duckdb():
    import duckdb
    import duckdb_extension_delta

    db = duckdb.connect()
    # INSTALL would ask a server; the package brings the same signed file.
    folder = os.path.dirname(duckdb_extension_delta.__file__)
    (extension,) = glob.glob(folder + "/extensions/v*/delta.duckdb_extension")
    db.execute(f"LOAD '{extension}'")
    db.execute("SET TimeZone = 'UTC'")

    def read(q):
        if q.get("do") == "sql":
            db.execute(q["text"])
            return {}
        if q.get("do") == "query":
            return arrow_answer(db.execute(q["text"]).to_arrow_table())
        quoted = q["path"].replace("'", "''")
        query = f"select * from delta_scan('{quoted}', version={q['version']}) where {q['where']}"
        return arrow_answer(db.execute(query).to_arrow_table())

    return read


def clickhouse():
    import chdb
    import pyarrow as pa

    os.chdir("/")  # it reads below its folder alone

    def read(q):
        quoted = q["path"].replace("\\", "\\\\").replace("'", "\\'")
        # Strings and bytes are one type there, and timestamps with and without a zone another.
        as_string = int(not any("binary" in t for t in q["types"].values()))
        query = (
            f"SELECT * FROM deltaLakeLocal('{quoted}') WHERE {q['where']} SETTINGS delta_lake_snapshot_version={q['version']},"
            f" output_format_arrow_string_as_string={as_string}, output_format_arrow_date_as_uint16=0"
        )
        table = pa.ipc.open_file(chdb.query(query, "Arrow").bytes()).read_all()
        for i, name in enumerate(table.schema.names):
            if q["types"].get(name) == "string" and arrow_type(table.schema.types[i]) == "binary":
                table = table.set_column(i, name, table.column(i).cast(pa.string()))
        return arrow_answer(table)

    return read


def trino(address):
    def statement(sql):
        for _ in range(60):
            columns, rows, error = run(sql)
            if not error:
                return columns, rows
            if error["errorName"] not in ("NO_NODES_AVAILABLE", "SERVER_STARTING_UP"):
                break
            time.sleep(0.5)  # a server that has just come up
        cause = (error.get("failureInfo") or {}).get("cause") or {}
        raise RuntimeError(f"{error['errorName']}: {error['message']} {cause.get('message', '')}")

    def run(sql):
        headers = {"X-Trino-User": "test", "X-Trino-Catalog": "delta", "X-Trino-Schema": "default", "X-Trino-Time-Zone": "UTC"}
        headers["X-Trino-Client-Capabilities"] = "PARAMETRIC_DATETIME"  # else it rounds to milliseconds
        request = urllib.request.Request(address + "/v1/statement", data=sql.encode(), headers=headers)
        rows, columns = [], []
        while True:
            with urllib.request.urlopen(request) as response:
                page = json.load(response)
            columns = page.get("columns") or columns
            rows += page.get("data") or []
            if "error" in page or "nextUri" not in page:
                return columns, rows, page.get("error")
            request = page["nextUri"]

    for _ in range(240):
        try:
            statement("CREATE SCHEMA IF NOT EXISTS delta.default")
            break
        except OSError as e:
            last = e
            time.sleep(0.5)
    else:
        raise last

    names = {"real": "float", "varchar": "string", "varbinary": "binary", "tinyint": "byte", "smallint": "short", "bigint": "long"}

    def kind(signature):
        of = [a["value"] for a in signature["arguments"]]
        match signature["rawType"]:
            case "decimal":
                return f"decimal({of[0]},{of[1]})"
            case "timestamp":
                return "timestamp_ntz"
            case "timestamp with time zone":
                return "timestamp"
            case "array":
                return f"array<{kind(of[0])}>"
            case "map":
                return f"map<{kind(of[0])},{kind(of[1])}>"
            case "row":
                return "struct<" + ",".join(f"{f['fieldName']['name']}:{kind(f['typeSignature'])}" for f in of) + ">"
        return names.get(signature["rawType"], signature["rawType"])

    def value(v, kind):
        """What text takes, of the JSON of a cell."""
        if v is None:
            return None
        if kind in ("float", "double"):
            return float(v)
        if kind.startswith("decimal"):
            return decimal.Decimal(v)
        if kind == "binary":
            return base64.b64decode(v)
        if kind == "date":
            return days(v)
        if kind.startswith("timestamp"):
            date, _, clock = v.removesuffix(" UTC").partition(" ")
            hours, minutes, seconds = clock.split(":")
            micros = int(decimal.Decimal(seconds) * 1000000)
            return ((days(date) * 24 + int(hours)) * 60 + int(minutes)) * 60000000 + micros
        if kind.endswith(">"):
            of = split(kind[kind.index("<") + 1 : -1])
            if kind.startswith("array"):
                return [value(e, of[0]) for e in v]
            if kind.startswith("map"):
                return [(value(k, of[0]), value(e, of[1])) for k, e in v.items()]
            return [value(e, k.partition(":")[2]) for e, k in zip(v, of)]
        return v

    def days(date):
        y, m, d = (int(part) for part in date.rsplit("-", 2))
        return datetime.date(y % 400 + 400, m, d).toordinal() + (y // 400 - 1) * 146097 - EPOCH.toordinal()

    registered = {}

    def name_of(path):
        if path not in registered:
            registered[path] = name = "t" + hashlib.md5(path.encode()).hexdigest()[:12]
            location = path if "://" in path else "local://" + path
            statement(f"CALL delta.system.register_table('default', '{name}', '" + location.replace("'", "''") + "')")
        return registered[path]

    def read(q):
        return query(f"SELECT * FROM {name_of(q['path'])} FOR VERSION AS OF {q['version']} WHERE {q['where']}")

    def query(sql):
        columns, rows = statement(sql)
        kinds = [kind(c["typeSignature"]) for c in columns]
        return {
            "columns": [(c["name"], k) for c, k in zip(columns, kinds)],
            "rows": [[text(value(v, k), k) for v, k in zip(row, kinds)] for row in rows],
        }

    read.statement, read.name_of, read.query = statement, name_of, query
    return read


ENGINES = {"delta-rs": delta_rs, "polars": polars, "duckdb": duckdb, "clickhouse": clickhouse, "trino": trino}


def serve(start, *args):
    """Starts an engine and answers requests, line by line."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an engine prints, and the JVM that it starts, is no answer
    answer = start(*args)
    for line in sys.stdin:
        request = json.loads(line)
        request.setdefault("where", "true")
        request.setdefault("types", {})
        try:
            reply = answer(request) or {}
        except BaseException as e:  # the test decides what an engine may refuse; Polars panics
            if isinstance(e, KeyboardInterrupt):
                raise
            reply = {"error": f"{type(e).__name__}: {e}"[:2000]}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(ENGINES[sys.argv[1]], *sys.argv[2:])
