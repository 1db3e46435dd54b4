#!/usr/bin/env bash
# install.sh DIR puts the real components of the integration tests below DIR, at the
# versions named in this folder: Kafka, Kafka Connect with Debezium, Delta Kernel, Spark, a Python environment with
# delta-rs, Polars, DuckDB and ClickHouse, an S3 server, and the emulators of other
# storages, and a schema registry. What is there already in that version stays. Trino (821 MB to fetch) is left
# out where the machine has no Java from 24 on or less than 6 GB of free disk, which is
# said; GSCD_ENGINES=all insists on it, GSCD_ENGINES=most does without.
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

apicurio() {
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
    -Dartifact="$(cat "$2")" -DoutputDirectory="$1" -Dmdep.overWriteReleases=false &&
    tar xzf "$1"/apicurio-registry-app-*.tar.gz -C "$1" &&
    rm "$1"/apicurio-registry-app-*.tar.gz
}

# newer_java tells whether there is a Java from 24 on where trino_server_test.go looks.
newer_java() {
  local home major
  for home in "${TRINO_JAVA_HOME:-}" "${JAVA_HOME:-}" /usr/lib/jvm/*; do
    if [ -n "$home" ] && [ -f "$home/release" ]; then
      major=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release")
      if [ "${major:-0}" -ge 24 ]; then
        return 0
      fi
    fi
  done
  return 1
}

# trino_lacks says what speaks against Trino on this machine; nothing where it can be had.
trino_lacks() {
  local free
  free=$(($(df -Pk "$dir" | awk 'NR == 2 { print $4 }') / 1000000))
  if [ "${GSCD_ENGINES:-}" = most ]; then
    echo "GSCD_ENGINES=most leaves it out"
  elif ! newer_java; then
    echo "no Java 24 or newer is on this machine (set TRINO_JAVA_HOME)"
  elif [ ! -f "$dir/trino.installed" ] && [ "$free" -lt 6 ]; then
    echo "it needs 6 GB of free disk while it is unpacked, $free are there"
  fi
}

needed java mvn python3 go npm
component kafka jars kafka-pom.xml
component connect jars connect-pom.xml
component kernel jars kernel-pom.xml
component python python requirements.txt
component spark python spark-requirements.txt
component spark-jars jars spark-pom.xml
component versitygw gateway versitygw.txt
component fake-gcs-server gateway fake-gcs-server.txt
component azurite packages azurite-package.json
component moto python moto-requirements.txt
# A schema registry (159 MB to fetch, 170 MB on disk) and a converter that writes by it (28 MB).
if newer_java; then
  component apicurio apicurio apicurio.txt
  component avro-converter jars avro-converter-pom.xml
else
  echo "integration tests: the schema registry is left out, and its tests are skipped: no Java 24 or newer is on this machine (set TRINO_JAVA_HOME)"
fi
"$here/prometheus.sh" "$dir"
# package installs one of the system's, where this user may; else it says what is left out.
package() { # PROGRAM PACKAGE WHAT
  if ! command -v "$1" > /dev/null && [ ! -x "/usr/sbin/$1" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null ||
      ! { apt-get update && apt-get install -y --no-install-recommends "$2"; } >> "$log" 2>&1; then
      echo "integration tests: $3 is left out, and its tests are skipped: apt-get install $2 brings it"
    fi
  fi
}
package mariadbd mariadb-server MariaDB # a server of MySQL's protocol
package pt-online-schema-change percona-toolkit pt-online-schema-change
if [ "${GSCD_ENGINES:-}" = all ]; then
  component trino trino trino.txt
  exit
fi
lacks=$(trino_lacks)
if [ -z "$lacks" ] && ! (component trino trino trino.txt); then
  lacks="it can't be had from the registry"
fi
if [ -n "$lacks" ]; then
  echo "integration tests: Trino is left out, and its tests are skipped: $lacks"
fi
