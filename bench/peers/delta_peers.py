"""One measure of delta-rs, or of DuckDB's delta reader, as bench/peers/delta does them.

usage: delta_peers.py deltars|duckdb MEASURE DIR

Rows are Arrow tables in memory before the clock starts; they count in the peak memory.
"""
import os, resource, shutil, sys, time

engine, measure, root = sys.argv[1:4]
cities = ["Beijing", "Hangzhou", "Wuhan", "Shanghai", "Chengdu", "Nanjing", "Xi'an", "Suzhou"]


def rows(start, stop, step, version):
    import numpy as np
    import pyarrow as pa

    i = np.arange(start, stop, step, dtype=np.int64)
    return pa.table({
        "id": i,
        "bucket": i * 7919 % 100,
        "city": pa.array(cities).take(pa.array(i % 8)),
        "amount": (i * 104729 + version) % 1_000_000,
        "price": (i % 1000) + 0.25,
        "note": pa.array([f"customer {n}" for n in range(5000)]).take(pa.array(i % 5000)),
    })


def deltars():
    import pyarrow.dataset as ds
    from deltalake import DeltaTable, write_deltalake

    def at(name):
        return os.path.join(root, name)

    if measure in ("open-log", "open-large"):
        path = at(measure[5:])
        t0 = time.perf_counter()
        found = len(DeltaTable(path).file_uris())
    elif measure == "prune":
        table = DeltaTable(at("log"))
        t0 = time.perf_counter()
        dataset = table.to_pyarrow_dataset()
        found = len(list(dataset.get_fragments(filter=(ds.field("id") >= 50000000) & (ds.field("id") <= 50999999))))
    elif measure == "checkpoint":
        table = DeltaTable(at("large-peer"))
        t0 = time.perf_counter()
        table.create_checkpoint()
        found = table.version()
    elif measure == "append":
        data = rows(0, 1_000_000, 1, 0)
        shutil.rmtree(at("deltars"), ignore_errors=True)
        t0 = time.perf_counter()
        write_deltalake(at("deltars"), data, mode="append")
        found = data.num_rows
    elif measure == "delete":
        t0 = time.perf_counter()
        found = DeltaTable(at("peer")).delete("bucket = 7")["num_deleted_rows"]
    elif measure in ("merge", "merge-ten"):
        n = 1_000_000 if measure == "merge" else 10_000_000
        data = rows(n // 2, n // 2 + n, n // 10_000, 1)
        t0 = time.perf_counter()
        found = (
            DeltaTable(at("peer" if measure == "merge" else "ten-peer"))
            .merge(data, predicate="t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_update_all().when_not_matched_insert_all().execute()
        )["num_target_rows_updated"]
    elif measure == "optimize":
        t0 = time.perf_counter()
        found = DeltaTable(at("small-peer")).optimize.compact()["numFilesAdded"]
    elif measure == "zorder":
        t0 = time.perf_counter()
        found = DeltaTable(at("ten-peer")).optimize.z_order(["bucket", "amount"], target_size=8 << 20)["numFilesAdded"]
        seconds = time.perf_counter() - t0
        dataset = DeltaTable(at("ten-peer")).to_pyarrow_dataset()
        opened = len(list(dataset.get_fragments(filter=(ds.field("bucket") == 50) & (ds.field("amount") < 10000))))
        return seconds, f"{found} files; {opened} opened for a filter"
    else:
        sys.exit(f"delta-rs has no {measure}")
    return time.perf_counter() - t0, found


def duckdb():
    import glob

    import duckdb
    import duckdb_extension_delta

    con = duckdb.connect(config={"threads": 2, "allow_unsigned_extensions": "true"})
    (extension,) = glob.glob(os.path.dirname(duckdb_extension_delta.__file__) + "/extensions/v*/delta.duckdb_extension")
    con.execute(f"LOAD '{extension}'")
    if measure in ("open-log", "open-large"):  # a plan makes it list the files; none is opened for no rows
        query = f"SELECT count(*) FROM delta_scan('{root}/{measure[5:]}') WHERE id < -1"
    else:
        sys.exit(f"DuckDB has no {measure}")
    t0 = time.perf_counter()
    found = con.execute(query).fetchall()[0][0]
    return time.perf_counter() - t0, found


seconds, found = {"deltars": deltars, "duckdb": duckdb}[engine]()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(f"{engine} {measure} {seconds:.3f} s, {peak} MiB at most, {found}", flush=True)
