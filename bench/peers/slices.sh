#!/usr/bin/env bash
# Measures the load of a full slice beside delta-rs's and Spark's MERGE of the same rows,
# one after the other. Needs what `make integration` installs below build/integration.
#
#   bench/peers/slices.sh [ROWS] [DIR]     1000000 rows, in build/peers/slices
set -euo pipefail
cd "$(dirname "$0")/../.."
rows=${1:-1000000}
dir=${2:-build/peers/slices}
engines=build/integration
rm -rf "$dir"
mkdir -p "$dir"
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/gscd" ./cmd/gscd
"$engines/python/bin/python" bench/peers/slices.py make "$dir" "$rows"
gscd() { "$dir/gscd" --log-level error "$@"; }
timed() { # what, command...
    local what=$1 began
    shift
    began=$(date +%s.%N)
    "$@" | grep -o '"new":[0-9]*,"changed":[0-9]*,"deleted":[0-9]*,"unchanged":[0-9]*' > "$dir/counts" || true
    printf '%s: %.2f s, the start of the program with it; %s\n' "$what" "$(echo "$(date +%s.%N) - $began" | bc)" "$(cat "$dir/counts")"
}
echo "load average: $(cut -d' ' -f1-3 /proc/loadavg)"
timed "gscd load, the first slice" gscd load --snapshot 2022-07-16 "$dir/day1.parquet" --table "$dir/gscd-table" --key id --timezone UTC --format json
timed "gscd load, the second slice" gscd load --snapshot 2022-07-17 "$dir/day2.parquet" --table "$dir/gscd-table" --format json
timed "gscd load, the same again" gscd load --snapshot 2022-07-17 "$dir/day2.parquet" --table "$dir/gscd-table" --format json
"$engines/python/bin/python" bench/peers/slices.py deltars "$dir"
"$engines/spark/bin/python" bench/peers/slices.py spark "$dir" "$engines/spark-jars" 2> /dev/null
echo "load average: $(cut -d' ' -f1-3 /proc/loadavg)"
