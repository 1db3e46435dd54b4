#!/usr/bin/env bash
# prometheus.sh DIR puts Prometheus and promtool below DIR/prometheus, from the system's package, without installing it. Where there
# is no apt-get it says so and is content: the unit tests of the alert rules are skipped then.
set -euo pipefail
dir=$(mkdir -p "${1:?prometheus.sh DIR}" && cd "$1" && pwd)
if [ -x "$dir/prometheus/usr/bin/promtool" ]; then
  exit
fi
if ! command -v apt-get > /dev/null || ! command -v dpkg > /dev/null; then
  echo "promtool is left out, and its tests are skipped: no apt-get on this machine; put promtool into PATH"
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"
if ! apt-get download prometheus > log 2>&1 && ! { [ "$(id -u)" = 0 ] && apt-get update >> log 2>&1 && apt-get download prometheus >> log 2>&1; }; then
  echo "promtool is left out, and its tests are skipped: apt-get download prometheus: $(tail -n 1 log)"
  exit
fi
mkdir -p "$dir/prometheus"
dpkg -x prometheus_*.deb unpacked
mkdir -p "$dir/prometheus/usr/bin"
cp unpacked/usr/bin/prometheus unpacked/usr/bin/promtool "$dir/prometheus/usr/bin/"
"$dir/prometheus/usr/bin/promtool" --version | head -n 1
