#!/usr/bin/env bash
# Packs a release for this machine's platform: DIR/gscd-VERSION-OS-ARCH.tar.gz with the program, man pages, completions, README and
# licence; beside it the list of the modules in it (CycloneDX), and checksums. The same commit gives the same bytes.
#   deploy/release/pack.sh DIR       needs Go and a C compiler; VERSION may be set; SBOM=none leaves the list out
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(mkdir -p "${1:?pack.sh DIR}" && cd "$1" && pwd)
cd "$root"
version=${VERSION:-$(git describe --tags --always --dirty)}
stamp=$(git log -1 --format=%ct)
name=gscd-$version-$(go env GOOS)-$(go env GOARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
at=$work/$name
mkdir -p "$at/man/man1" "$at/completion"

go build -trimpath -pgo=cmd/gscd/gscd.pgo -ldflags "-s -w -buildid= -X main.release=$version" -o "$at/gscd" ./cmd/gscd
SOURCE_DATE_EPOCH=$stamp go test ./cmd/gscd -count 1 -run 'TestManPages$' -args -man="$at/man/man1"
for shell in bash zsh fish powershell; do
  "$at/gscd" completion "$shell" > "$at/completion/gscd.$shell"
done
cp README.md LICENSE CHANGELOG.md "$at"
"$at/gscd" version

# Names in one order, one owner, one time: nothing of the machine is in the archive.
find "$at" -exec touch -d "@$stamp" {} + 2> /dev/null || find "$at" -exec touch -t "$(date -r "$stamp" +%Y%m%d%H%M.%S)" {} +
if tar --version | grep -q GNU; then
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cf "$work/a.tar" "$name"
else
  (cd "$work" && find "$name" | sort | tar --uid 0 --gid 0 --no-recursion -cf a.tar -T -)
fi
gzip -9n < "$work/a.tar" > "$out/$name.tar.gz"
files=("$name.tar.gz")
if [ "${SBOM:-}" != none ]; then
  GOFLAGS='' go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0 bin -json -noserial -output "$out/$name.cdx.json" "$at/gscd"
  files+=("$name.cdx.json")
fi
(cd "$out" && if command -v sha256sum > /dev/null; then sha256sum "${files[@]}"; else shasum -a 256 "${files[@]}"; fi > "$name.sha256" && cat "$name.sha256")
