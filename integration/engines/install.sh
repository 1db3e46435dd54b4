#!/usr/bin/env bash
# install.sh DIR puts the real components of the integration tests below DIR, at the
# versions named in this folder: Kafka, Delta Kernel, Spark, a Python environment with
# delta-rs, Polars, DuckDB and ClickHouse, an S3 server, and the emulators of other
# storages. What is there already in that version stays. Trino (821 MB to fetch) is
# put there with GSCD_ENGINES=all.
set -euo pipefail
dir=${1:?install.sh DIR}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
log=$dir/install.log
: > "$log"

# component NAME STEP FILE runs STEP unless it was done before with the same FILE.
component() {
  local name=$1 step=$2 file=$here/$3 started=$SECONDS try
  if cmp -s "$file" "$dir/$name.installed"; then
    return
  fi
  rm -rf "${dir:?}/$name" "$dir/$name.installed"
  # A registry that answers late is asked again.
  for try in 1 2 3; do
    if "$step" "$dir/$name" "$file" >> "$log" 2>&1; then
      cp "$file" "$dir/$name.installed"
      echo "installed $name in $((SECONDS - started)) s"
      return
    fi
    rm -rf "${dir:?}/$name"
    sleep "$try"
  done
  echo "integration tests: $name can't be had; the end of $log:" >&2
  tail -n 20 "$log" >&2
  exit 1
}

needed() {
  for tool in "$@"; do
    if ! command -v "$tool" > /dev/null; then
      echo "integration tests: $tool is not on this machine: they need Java 17 or newer, Maven, Node.js 18 or newer with npm, and Python 3.10 or newer with venv" >&2
      exit 1
    fi
  done
}

jars() {
  mvn -q -B -f "$2" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$1"
}

python() {
  python3 -m venv "$1" &&
    "$1/bin/pip" install --quiet --no-input --disable-pip-version-check -r "$2"
}

gateway() {
  GOBIN="$1" GOFLAGS= go install "$(cat "$2")"
}

packages() {
  mkdir -p "$1" && cp "$2" "$1/package.json" &&
    npm install --prefix "$1" --no-audit --no-fund --no-package-lock --ignore-scripts
}

trino() {
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
    -Dartifact="$(cat "$2")" -DoutputDirectory="$1" -Dmdep.overWriteReleases=false &&
    # The plugins are hard-linked to each other, so that all of them must come out first.
    tar xzf "$1"/trino-server-*.tar.gz -C "$1" --strip-components=1 &&
    rm "$1"/trino-server-*.tar.gz &&
    find "$1/plugin" -mindepth 1 -maxdepth 1 ! -name delta-lake -exec rm -rf {} +
}

needed java mvn python3 go npm
component kafka jars kafka-pom.xml
component kernel jars kernel-pom.xml
component python python requirements.txt
component spark python spark-requirements.txt
component spark-jars jars spark-pom.xml
component versitygw gateway versitygw.txt
component fake-gcs-server gateway fake-gcs-server.txt
component azurite packages azurite-package.json
component moto python moto-requirements.txt
if [ "${GSCD_ENGINES:-}" = all ]; then
  component trino trino trino.txt
fi
