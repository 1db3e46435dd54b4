#!/usr/bin/env bash
# Builds the slim image from nothing but the binary, with buildah and without a container engine, and looks whether it runs.
#   deploy/image/build.sh [DIR]    writes DIR/gscd.tar (an OCI archive) and DIR/gscd.cdx.json (the modules in it)
# Needs Go and buildah; VERSION and IMAGE may be set.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(mkdir -p "${1:-$root/build/image}" && cd "${1:-$root/build/image}" && pwd)
version=${VERSION:-$(git -C "$root" describe --tags --always --dirty)}
image=${IMAGE:-localhost/gscd:slim}
context=$out/context
mkdir -p "$context"

build() {
  CGO_ENABLED=0 go build -C "$root" -trimpath -ldflags "-s -w -buildid= -X main.release=$version" -o "$1" ./cmd/gscd
}
build "$context/gscd"
build "$out/again"
cmp "$context/gscd" "$out/again" # the same tree gives the same bytes
rm "$out/again"
for bundle in ${SSL_CERT_FILE:-} /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
  if [ -f "$bundle" ]; then
    cp "$bundle" "$context/ca-certificates.crt"
    break
  fi
done
"$context/gscd" version | grep -qE "^gscd +$version$" # the stamp is in the binary
GOFLAGS='' go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0 bin -json -noserial -version "$version" -output "$out/gscd.cdx.json" "$context/gscd"
"$root/deploy/image/checksbom.sh" "$context/gscd" "$out/gscd.cdx.json" "$version"

buildah=(buildah --storage-driver vfs --root "$out/storage" --runroot "$out/run")
"${buildah[@]}" bud --isolation chroot --timestamp "$(git -C "$root" log -1 --format=%ct)" -f "$root/deploy/image/Dockerfile.scratch" -t "$image" "$context"
container=$("${buildah[@]}" from "$image")
trap '"${buildah[@]}" rm "$container" > /dev/null; "${buildah[@]}" rmi --all --force > /dev/null; rm -rf "$out/storage" "$out/run" "$out/scratch" "$context"' EXIT
"${buildah[@]}" run --isolation chroot "$container" -- /usr/local/bin/gscd version
# As its user it can write nowhere but below TMPDIR, which is a volume, and needs no more.
mkdir -p "$out/scratch" && chmod 1777 "$out/scratch"
"${buildah[@]}" run --isolation chroot --volume "$out/scratch:/scratch" "$container" -- /usr/local/bin/gscd demo > "$out/demo.log"
mount=$("${buildah[@]}" mount "$container")
loose=$(find "$mount" -xdev \( -perm /022 -o ! -user root -o ! -group root \) ! -type l ! -path "$mount/scratch*" ! -path "$mount")
suid=$(find "$mount" -xdev -perm /6000)
"${buildah[@]}" umount "$container" > /dev/null
if [ -n "$loose$suid" ]; then
  printf 'others than root may write these, or they run as another user:\n%s\n%s\n' "$loose" "$suid"
  exit 1
fi
user=$("${buildah[@]}" inspect --format '{{.OCIv1.Config.User}}' "$container")
if [ "$user" != 65532:65532 ]; then
  echo "the image runs as $user, not as 65532:65532"
  exit 1
fi
rm -f "$out/gscd.tar"
"${buildah[@]}" push "$image" "oci-archive:$out/gscd.tar:$image"
ls -l "$out/gscd.tar" "$out/gscd.cdx.json"
