"""MERGE of change batches into a Delta table by delta-rs, in a loop.

usage: deltars_merge.py WORKLOAD TABLE BATCH

Makes the table of WORKLOAD/base, then merges each file of WORKLOAD/batches. A
file is read before its MERGE begins. Says on standard output when a batch is done.
"""
import os, shutil, sys

import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

workload, root, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
shutil.rmtree(root, ignore_errors=True)
for name in sorted(os.listdir(f"{workload}/base")):
    for part in pq.ParquetFile(f"{workload}/base/{name}").iter_batches(1_000_000):
        write_deltalake(root, part, mode="append")
for name in sorted(os.listdir(f"{workload}/batches")):
    changes = pq.read_table(f"{workload}/batches/{name}")
    columns = [n for n in changes.column_names if n != "op"]
    (
        DeltaTable(root)
        .merge(changes, predicate="t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_delete(predicate="s.op = 'd'")
        .when_matched_update(updates={n: f"s.{n}" for n in columns})
        .when_not_matched_insert(updates={n: f"s.{n}" for n in columns}, predicate="s.op <> 'd'")
        .execute()
    )
    print(f"MARK {batch}", flush=True)
