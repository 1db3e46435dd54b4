"""MERGE of change batches into a Delta table by delta-rs, the peer of BenchmarkIngest.

usage: deltars_merge.py DIR ROWS BATCH BATCHES

Makes a table of ROWS rows with the ten columns of the workload, then merges
BATCHES batches of BATCH changes (30 % inserts, 60 % updates, 10 % deletes,
uniform keys). The batches are Arrow tables in memory: no Kafka and no JSON is
in the figure. Prints rows a second.
"""
import random, shutil, sys, time

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

root, rows, batch, batches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
rng = random.Random(20220716)
cities = ["Beijing", "Hangzhou", "Wuhan", "Shanghai", "Chengdu", "Nanjing", "Xi'an", "Suzhou"]


def table(ids, version, ops=None):
    columns = {
        "id": pa.array(ids, pa.int64()),
        "customer": pa.array([i * 7919 % 100000 for i in ids], pa.int64()),
        "status": pa.array([("new", "paid", "sent", "done")[version % 4]] * len(ids)),
        "city": pa.array([cities[i % 8] for i in ids]),
        "amount": pa.array([(i + version) % 100000 for i in ids], pa.int64()),
        "price": pa.array([i % 1000 + 0.25 for i in ids]),
        "name": pa.array([f"customer {i % 5000}" for i in ids]),
        "note": pa.array([None] * len(ids), pa.string()),
        "quantity": pa.array([i % 50 for i in ids], pa.int64()),
        "updated_at": pa.array([f"2022-07-16T08:{i // 60 % 60:02d}:{i % 60:02d}.{version:06d}Z" for i in ids]),
    }
    if ops is not None:
        columns["op"] = pa.array(ops)
    return pa.table(columns)


shutil.rmtree(root, ignore_errors=True)
for start in range(1, rows + 1, 1_000_000):
    write_deltalake(root, table(range(start, min(start + 1_000_000, rows + 1)), 0), mode="append")
live, fresh = list(range(1, rows + 1)), rows + 1
work = []
for b in range(batches):
    ids, ops, seen = [], [], set()
    while len(ids) < batch:
        p = rng.randrange(10)
        if p < 3:
            i, op = fresh, "c"
            fresh += 1
        else:
            i, op = live[rng.randrange(len(live))], "u" if p < 9 else "d"
        if i in seen:
            continue
        seen.add(i)
        ids.append(i)
        ops.append(op)
    work.append(table(ids, b + 1, ops))
names = [n for n in work[0].column_names if n != "op"]
t0 = time.perf_counter()
for changes in work:
    (
        DeltaTable(root)
        .merge(changes, predicate="t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_delete(predicate="s.op = 'd'")
        .when_matched_update(updates={n: f"s.{n}" for n in names})
        .when_not_matched_insert(updates={n: f"s.{n}" for n in names}, predicate="s.op <> 'd'")
        .execute()
    )
seconds = time.perf_counter() - t0
print(f"delta-rs MERGE rows={rows} batch={batch}: {batch * batches / seconds:.0f} rows/s ({batches} batches in {seconds:.1f} s)", flush=True)
