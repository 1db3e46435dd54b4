#!/usr/bin/env bash
# Builds kube-apiserver and etcd, at the versions of go.mod here, into DIR, if they are not there.
#   deploy/kube/build.sh [DIR]    default: build/kube at the root of the repository
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:-$here/../../build/kube}
want=$(cat "$here/go.mod" "$here/go.sum" "$here/build.sh" | sha256sum)
if [ "$(cat "$out/built" 2> /dev/null)" = "$want" ]; then
  exit 0
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
kubernetes=$(cd "$here" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${kubernetes#v1.}
version=k8s.io/component-base/version
# -N -l: the compiler's time is what counts here, not the server's.
(cd "$here" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath '-gcflags=all=-N -l' \
  -ldflags "-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=${minor%%.*}" \
  -o "$out/" k8s.io/kubernetes/cmd/kube-apiserver go.etcd.io/etcd/server/v3)
mv "$out/server" "$out/etcd"
echo "$want" > "$out/built"
ls -l "$out"
