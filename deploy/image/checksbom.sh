#!/usr/bin/env bash
# Compares a list of modules (CycloneDX) with what the linker has put into the binary.
#   deploy/image/checksbom.sh BINARY SBOM [VERSION]
set -euo pipefail
python3 - "$2" <(go version -m "$1") "${3:-}" << 'PY'
import json, sys

sbom = json.load(open(sys.argv[1]))
listed = {(c["name"], c["version"]) for c in sbom["components"]}
linked, replaced = set(), None
for line in open(sys.argv[2]):
    part = line.strip().split("\t")
    if part[0] == "dep":
        replaced = (part[1], part[2])
        linked.add(replaced)
    elif part[0] == "=>":
        linked.discard(replaced)
        linked.add((part[1], part[2]))
listed = {(n, v) for n, v in listed if n != "std"}
if listed != linked or not linked:
    sys.exit(f"only in the list: {sorted(listed - linked)}\nonly in the binary: {sorted(linked - listed)}")
if sys.argv[3] and sbom["metadata"]["component"].get("version") != sys.argv[3]:
    sys.exit(f"it is the list of {sbom['metadata']['component']}, and not of {sys.argv[3]}")
print(f"{len(linked)} modules")
PY
