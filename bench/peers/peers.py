"""Runs gscd and its peers on the same changes, one after the other, and compares.

Called by bench/peers/run, which installs what this needs. Prints a Markdown table,
and writes it and the figures as JSON. Each engine is a process of its own that says
when a batch is committed; the first batch is its warming up and is not measured, nor
is all before it (starting, making the table, gscd's key index).
"""
import argparse, glob, json, os, shutil, subprocess, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ["id", "customer", "status", "city", "amount", "price", "name", "note", "quantity", "updated_at"]
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(root):
    """The ids of a process and all below it."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as f:
                    parent = int(f.read().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def usage(root):
    """CPU seconds so far, of children that have ended too, and resident bytes now."""
    cpu = resident = 0
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        cpu += sum(int(n) for n in fields[11:15])
        resident += int(fields[21]) * PAGE
    return cpu / TICKS, resident


def bytes_below(folder):
    """The files below a folder and their sizes."""
    out = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            try:
                out[path] = os.path.getsize(path)
            except OSError:
                pass
    return out


class Run:
    """One engine on one workload, under way."""

    def __init__(self, command, table, env=None):
        self.command, self.table, self.env = command, table, env
        self.marks = []  # (time, records, CPU seconds)
        self.peak = self.whole_peak = 0
        self.files = {}
        self.log = []

    def mark(self, records):
        now = time.monotonic()
        self.marks.append((now, records, usage(self.process.pid)[0]))
        if len(self.marks) == 1:
            self.first_files = bytes_below(self.table)
            self.peak = 0

    def read(self, stream):
        for line in stream:
            self.log = self.log[-40:] + [line.rstrip()]
            if line.startswith("MARK "):
                self.mark(int(line.split()[1]))
            elif '"msg":"committed"' in line:
                said = json.loads(line)
                if said.get("records"):
                    self.mark(said["records"])

    def go(self, limit):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.env)
        reader = threading.Thread(target=self.read, args=(self.process.stdout,))
        reader.start()
        end = time.monotonic() + limit
        while self.process.poll() is None:
            resident = usage(self.process.pid)[1]
            self.peak, self.whole_peak = max(self.peak, resident), max(self.whole_peak, resident)
            if time.monotonic() > end:
                for pid in reversed(tree(self.process.pid)):
                    try:
                        os.kill(pid, 9)
                    except ProcessLookupError:
                        pass
                self.log.append(f"stopped after {limit} s")
            time.sleep(0.05)
        reader.join()
        if self.process.returncode:
            raise RuntimeError("\n".join(self.log))
        if len(self.marks) < 2:
            raise RuntimeError("fewer than two batches:\n" + "\n".join(self.log))
        first, last = self.marks[0], self.marks[-1]
        records = sum(m[1] for m in self.marks[1:])
        seconds = last[0] - first[0]
        after = bytes_below(self.table)
        return {
            "records": records, "batches": len(self.marks) - 1, "seconds": round(seconds, 3), "rows_per_second": round(records / seconds),
            "cpu_seconds": round(last[2] - first[2], 2), "peak_resident_bytes": self.peak, "peak_resident_bytes_from_the_start": self.whole_peak,
            "bytes_written": sum(n for path, n in after.items() if self.first_files.get(path) != n),
        }


def rows_of(duckdb, extension, relation):
    """The number of rows and a checksum that does not depend on their order."""
    con = duckdb.connect()
    con.execute("SET threads = 2")
    con.execute(f"LOAD '{extension}'")
    cells = ", ".join(f"{c}::VARCHAR" if c != "price" else "price::DECIMAL(18,2)::VARCHAR" for c in COLUMNS)
    return con.execute(f"SELECT count(*), count(DISTINCT id), sum(hash({cells})::HUGEINT)::VARCHAR FROM ({relation})").fetchone()


def expected(workload):
    names = ", ".join(COLUMNS)
    final = f"read_parquet('{workload}/final.parquet')"
    return f"SELECT {names} FROM read_parquet('{workload}/base/*.parquet') WHERE id NOT IN (SELECT id FROM {final}) UNION ALL SELECT {names} FROM {final} WHERE op <> 'd'"


def write_csv(workload):
    """The changes as Flink can read them without more jars, and Paimon's names of the kinds of rows."""
    import pyarrow as pa, pyarrow.compute as pc, pyarrow.csv as csv, pyarrow.parquet as pq

    def prepare(rows, batch=None):
        columns = {"b": pa.array([batch] * rows.num_rows, pa.int32())} if batch is not None else {}
        columns |= {n: pc.fill_null(rows[n].cast(pa.string()), "\\N") if n == "note" else rows[n] for n in COLUMNS}
        op = rows["op"] if "op" in rows.column_names else pa.array(["c"] * rows.num_rows)
        columns["op"] = pc.if_else(pc.equal(op, "d"), "-D", "+I")
        return pa.table(columns)

    os.makedirs(f"{workload}/csv")
    options = csv.WriteOptions(include_header=False, quoting_style="needed")
    writer = None
    for name in sorted(os.listdir(f"{workload}/base")):
        for part in pq.ParquetFile(f"{workload}/base/{name}").iter_batches(500_000):
            rows = prepare(pa.Table.from_batches([part]))
            writer = writer or csv.CSVWriter(f"{workload}/csv/base.csv", rows.schema, write_options=options)
            writer.write(rows)
    writer.close()
    writer = None
    for number, name in enumerate(sorted(os.listdir(f"{workload}/batches"))):
        rows = prepare(pq.read_table(f"{workload}/batches/{name}"), number)
        writer = writer or csv.CSVWriter(f"{workload}/csv/batches.csv", rows.schema, write_options=options)
        writer.write(rows)
    writer.close()


def gscd(a, workload, batch):
    table, config = f"{workload}/gscd", f"{workload}/gscd.yaml"
    with open(config, "w") as f:
        f.write("calendar: {timezone: UTC}\ntables:\n"
                f"  - {{location: {json.dumps(table)}, name: orders, topics: [shop.shop.orders], key: [id], batch: {{rows: {batch}}}}}\n")
    command = [a.gscd, "ingest", "-c", config, "--input", f"{workload}/events.jsonl", "--until-end"]
    return Run(command, table), f"SELECT * FROM delta_scan('{table}')"


def deltars(a, workload, batch):
    table = f"{workload}/deltars"
    return Run([a.python, f"{HERE}/deltars_merge.py", workload, table, str(batch)], table), f"SELECT * FROM delta_scan('{table}')"


def spark(a, workload, batch):
    # The stream takes files by their times, which have whole seconds in some file systems.
    for number, name in enumerate(sorted(os.listdir(f"{workload}/batches"))):
        os.utime(f"{workload}/batches/{name}", (1_700_000_000 + number, 1_700_000_000 + number))
    table = f"{workload}/spark"
    env = os.environ | {"PYSPARK_PYTHON": a.spark_python, "PYTHONUNBUFFERED": "1"}
    return Run([a.spark_python, f"{HERE}/spark_merge.py", workload, table, str(batch), a.spark_jars], table, env), f"SELECT * FROM delta_scan('{table}')"


def paimon(a, workload, batch):
    write_csv(workload)
    opens = [f"--add-opens=java.base/{p}=ALL-UNNAMED" for p in ("java.lang", "java.util", "java.nio", "java.net", "sun.nio.ch", "java.util.concurrent")]
    command = ["java", "-Xmx8g", *opens, "-Dlog4j.rootLogger=ERROR", "-cp", a.paimon_classpath, "PaimonUpsert", workload, f"{workload}/paimon", str(batch)]
    types = ", ".join(f"'{c}': '{'BIGINT' if c in ('id', 'customer', 'amount', 'quantity') else 'DOUBLE' if c == 'price' else 'VARCHAR'}'" for c in COLUMNS)
    rows = f"SELECT * FROM read_csv('{workload}/paimon-rows/**', header = false, nullstr = '\\N', columns = {{{types}}})"
    return Run(command, f"{workload}/paimon/default.db/t"), rows


ENGINES = {"gscd": gscd, "delta-rs": deltars, "spark": spark, "paimon": paimon}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dir", required=True)
    p.add_argument("--gscd", required=True)
    p.add_argument("--workload", required=True)
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--spark-python", default="")
    p.add_argument("--spark-jars", default="")
    p.add_argument("--paimon-classpath", default="")
    p.add_argument("--engines", default="gscd,delta-rs,spark,paimon")
    p.add_argument("--sizes", default="1000000x10000x21,1000000x100000x9,10000000x10000x9,10000000x100000x6",
                   help="ROWSxBATCHxBATCHES, comma between; the first batch is not measured")
    p.add_argument("--quick", action="store_true", help="one small size: 100,000 rows")
    p.add_argument("--limit", type=int, default=1800, help="seconds after which an engine is stopped")
    p.add_argument("--rounds", type=int, default=1, help="how often each engine runs; the median is shown")
    a = p.parse_args()
    import duckdb

    extension = glob.glob(os.path.join(os.path.dirname(duckdb.__file__), "..", "duckdb_extension_delta", "extensions", "*", "delta.duckdb_extension"))[0]
    engines = [e for e in a.engines.split(",") if e]
    for e in engines:
        if e not in ENGINES:
            sys.exit(f"{e}: no such engine, there are {', '.join(ENGINES)}")
    if "paimon" in engines and not a.paimon_classpath or "spark" in engines and not a.spark_jars:
        sys.exit("an engine is not installed: see bench/peers/run")
    results, faults = [], []
    lines = ["| rows | batch | engine | rows/s | gscd is | most memory | CPU | CPU a million | written | of its rows |", "|" + " --- |" * 10]
    print("\n".join(lines), flush=True)
    for size in ("100000x10000x6" if a.quick else a.sizes).split(","):
        rows, batch, batches = (int(n) for n in size.split("x"))
        runs = {e: [] for e in engines}
        for round in range(a.rounds):
            for e in engines:
                workload = os.path.join(a.dir, "work")
                if e == engines[0]:
                    shutil.rmtree(workload, ignore_errors=True)
                    subprocess.run([a.workload, workload, str(rows), str(batch), str(batches)], check=True)
                    want = rows_of(duckdb, extension, expected(workload))
                    parquet = sum(sorted(bytes_below(f"{workload}/batches").values())[1:])
                before = os.getloadavg()[0]
                run, relation = ENGINES[e](a, workload, batch)
                try:
                    result = run.go(a.limit)
                    got = rows_of(duckdb, extension, relation)
                except Exception as fault:  # the others are measured all the same
                    faults.append(f"{e}, {rows} rows, batches of {batch}: {fault}")
                    print(faults[-1], file=sys.stderr, flush=True)
                    continue
                if got != want:
                    faults.append(f"{e}, {rows} rows, batches of {batch}: rows, keys, checksum {got}, want {want}")
                    print(faults[-1], file=sys.stderr, flush=True)
                    continue
                result |= {"engine": e, "rows": rows, "batch": batch, "round": round, "load_before": before, "parquet_bytes": parquet, "checksum": got[2], "rows_at_the_end": got[0]}
                results.append(result)
                runs[e].append(result)
                shutil.rmtree(run.table, ignore_errors=True)
        medians = {e: sorted(list, key=lambda r: r["rows_per_second"])[len(list) // 2] for e, list in runs.items() if list}
        for e, r in medians.items():
            ours = medians.get("gscd")
            ratio = f"{ours['rows_per_second'] / r['rows_per_second']:.1f}x" if ours and e != "gscd" else ""
            lines.append(f"| {rows:,} | {batch:,} | {e} | {r['rows_per_second']:,} | {ratio} | {r['peak_resident_bytes'] >> 20:,} MiB | {r['cpu_seconds']} s | "
                         f"{r['cpu_seconds'] / r['records'] * 1e6:.1f} s | {r['bytes_written'] / 1e6:.1f} MB | {r['bytes_written'] / r['parquet_bytes']:.1f}x |")
            print(lines[-1], flush=True)
    with open("/proc/cpuinfo") as f:
        cpu = next((l.split(":", 1)[1].strip() for l in f if l.startswith("model name")), "")
    with open(os.path.join(a.dir, "peers.json"), "w") as f:
        json.dump({"cpu": cpu, "cores": os.cpu_count(), "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "results": results, "faults": faults}, f, indent=1)
    with open(os.path.join(a.dir, "peers.md"), "w") as f:
        f.write("\n".join(lines) + "\n")
    shutil.rmtree(os.path.join(a.dir, "work"), ignore_errors=True)
    if faults:
        sys.exit(1)
    print(f"the rows of all are equal; figures are in {a.dir}/peers.json and peers.md", file=sys.stderr)


main()
