#!/usr/bin/env bash
# Writes the digest behind each image's tag in docker-compose.yml, as the registry has it now. Needs docker with buildx.
set -euo pipefail
file=$(dirname "${BASH_SOURCE[0]}")/docker-compose.yml
grep -oE '^ +image: [^ ]+' "$file" | awk '{print $2}' | sort -u | while read -r image; do
  case $image in localhost/*) continue ;; esac
  tag=${image%@*}
  digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$tag")
  sed -i "s#image: $image\$#image: $tag@$digest#" "$file"
  echo "$tag@$digest"
done
