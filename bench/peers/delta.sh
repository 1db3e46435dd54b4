#!/usr/bin/env bash
# Measures the Delta library beside delta-rs and DuckDB's delta reader, one after the
# other, each measure in a process of its own. Needs python3 with venv, and 4 GB of disk.
#
#   bench/peers/delta.sh [DIR]       work folder, default build/peers; FAST=1 leaves out 10 M rows
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=${1:-build/peers}
mkdir -p "$dir"
python=${PYTHON:-$dir/delta-venv/bin/python}
if [ ! -x "$python" ]; then
    python3 -m venv "$dir/delta-venv"
    "$python" -m pip install -q deltalake==1.6.6 pyarrow==26.0.1 numpy duckdb==1.5.5 duckdb-extension-delta==1.5.5
fi
tables=$dir/delta
rm -rf "$tables"
mkdir -p "$tables"
trap 'rm -rf "$tables"' EXIT
go build -o "$dir/delta-bench" ./bench/peers/delta
ours() { "$dir/delta-bench" "$1" "$tables"; }
theirs() { "$python" bench/peers/delta_peers.py "$1" "$2" "$tables" || true; }
both() {
    ours "$1"
    theirs deltars "$1"
}
ours make-log > /dev/null
ours make-large > /dev/null
for measure in open-log open-large; do
    for round in 1 2; do
        both "$measure"
        theirs duckdb "$measure"
    done
done
both prune
cp -r "$tables/large" "$tables/large-peer" # where a checkpoint is, delta-rs writes none
both checkpoint
both open-large # from our checkpoint
theirs duckdb open-large
both append
ours append-rows
ours fill-peer > /dev/null
both delete
both merge
ours fill-small > /dev/null
cp -r "$tables/small" "$tables/small-peer"
both optimize
if [ -z "${FAST:-}" ]; then
    ours fill-ten
    ours fill-ten-peer > /dev/null
    both merge-ten
    both zorder
fi
