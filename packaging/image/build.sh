#!/usr/bin/env bash
# Builds the container images from scratch, with buildah and without a daemon. It takes no arguments.
#
# VARIANT is `image` (Reseq) or `demo` (with a Redis of its own, to try Reseq). In $DIST:
#   reseq-VERSION-VARIANT.tar        for `docker load`, `podman load` and registries: an OCI archive of x86-64, and of
#                                    aarch64 if its programs are there, with a health check
#   reseq-VERSION-VARIANT.cdx.json   its contents: the list of `make sbom` (CycloneDX), and packages of Debian. The
#                                    label reseq.sbom of the image has the checksum of this file
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/../lib.sh"
SBOM=${RESEQ_SBOM:-$DIST/../sbom/reseq.cdx.json}
umask 022 && export LC_ALL=C

hash buildah jq readelf 2>/dev/null || { say "installing buildah, jq and binutils with apt-get" &&
  apt-get -qq -y install buildah jq binutils >/dev/null; } || die "install buildah, jq and binutils, then try again"
# Files of the image belong to two users. Without root, a user namespace makes this possible.
[ "$(id -u)" = 0 ] || exec buildah unshare "$0"
ls "$(programs x86_64)"/{reseq,reseq-connect,redis-server,LICENSE.valkey} >/dev/null || die "build the programs for x86_64 first"

work=$(mktemp -d "$DIST/image.XXXXXX") && trap 'rm -rf "$work"' EXIT
jq --slurp '.[0].components = ((map(.components) | add) + [.[1].metadata.component] | unique_by(."bom-ref")) | .[0]' \
  "$SBOM" "${SBOM%/*}/reseq-connect.cdx.json" >"$work/sbom" || { say "the dependencies will be missing in the SBOM: run make sbom first" &&
  echo '{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}' >"$work/sbom"; }
b() { buildah --storage-driver vfs --root "$work/store" --runroot "$work/run" "$@"; }
# The same files give the same bytes.
tar=(tar --create --sort=name --format=ustar --numeric-owner --mtime="@$SOURCE_DATE_EPOCH")

# files ARCHITECTURE MACHINE: the files of both variants, in $work/VARIANT-ARCHITECTURE.
files() {
  local debian=$work/$1 root=$work/image-$1 demo=$work/demo-$1
  local programs loader library package packages=(ca-certificates)
  programs=$(programs "$2")
  loader=$(readelf --program-headers "$programs/reseq" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
  # A static program needs no C library.
  [ -z "$loader" ] || packages+=(libc6 libgcc-s1 gcc-12-base)
  debian_files "$1" "$debian" "${packages[@]}" >>"$work/packages"
  for package in "${packages[@]}"; do
    install -D -m 644 -t "$root/usr/share/doc/$package" "$debian/usr/share/doc/$package/copyright"
  done
  install -D -m 644 "$ROOT/LICENSE" "$root/usr/share/doc/reseq/copyright"
  install -D -t "$root/usr/local/bin" "$programs"/reseq{,-connect}
  # From the package, because this machine may trust others besides.
  install -D -m 644 <(cat "$debian"/usr/share/ca-certificates/mozilla/*.crt) "$root/etc/ssl/certs/ca-certificates.crt"
  echo 'reseq:x:65532:65532::/:/sbin/nologin' >"$root/etc/passwd"
  echo 'reseq:x:65532:' >"$root/etc/group"
  if [ -n "$loader" ]; then
    echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
    install -D "$debian/lib/$2-linux-gnu/${loader##*/}" "$root$loader"
    for library in $(readelf --dynamic "$programs"/reseq{,-connect} | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
      install -D -m 644 -t "$root/lib/$2-linux-gnu" "$debian/lib/$2-linux-gnu/$library"
    done
  fi
  cp -R "$root" "$demo"
  install -t "$demo/usr/local/bin" "$programs/redis-server"
  install -D -m 644 "$programs/LICENSE.valkey" "$demo/usr/share/doc/redis-server/copyright"
  install -D -m 644 "$ROOT/packaging/image/demo.toml" "$demo/etc/reseq/reseq.toml"
  # The folders to which the demo writes.
  install -d -m 1777 "$demo/tmp"
  install -d -m 700 -o 65532 -g 65532 "$demo/data"
}

# blob: keeps its input as a blob of the OCI layout, and prints the descriptor.
blob() {
  local digest
  cat >"$work/blob"
  digest=$(sha256sum "$work/blob" | cut -d ' ' -f 1)
  jq -n --arg digest "$digest" --argjson size "$(stat --format %s "$work/blob")" '{digest: "sha256:\($digest)", $size}'
  mv "$work/blob" "$blobs/$digest"
}

# archive VARIANT NAME OPTION...: builds the images of a variant, and makes one archive of them.
archive() {
  local file=$DIST/reseq-$VERSION-$1 layout=$work/$1 blobs=$work/$1/blobs/sha256
  local root architecture container manifest config
  jq --sort-keys --slurp --slurpfile base "$work/sbom" --argjson time "$SOURCE_DATE_EPOCH" '
    unique as $packages | $base[0] | del(.serialNumber) | .metadata.timestamp = ($time | todate)
    | .components += [$packages[] | if .type == "library" then .purl = "pkg:deb/debian/\(.name)@\(.version | @uri)"
      else . end]' "$work/packages" >"$file.cdx.json"
  for root in "$work/$1"-*; do
    architecture=${root##*-}
    "${tar[@]}" --file "$work/root.tar" --directory "$root" .
    container=$(b from --arch "$architecture" scratch)
    b add --quiet "$container" "$work/root.tar" / >/dev/null
    b config --arch "$architecture" --os linux --user 65532:65532 --workingdir / --env PATH=/usr/local/bin \
      --entrypoint '["/usr/local/bin/reseq"]' --cmd serve --port 8080/tcp --stop-signal SIGTERM \
      --label org.opencontainers.image.title=Reseq --label org.opencontainers.image.licenses=MIT \
      --label "org.opencontainers.image.version=$VERSION" \
      --label "org.opencontainers.image.description=$(sed -n 's/^description = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")" \
      --label "org.opencontainers.image.revision=$(git -C "$ROOT" rev-parse HEAD)" \
      --label "reseq.sbom=sha256:$(sha256sum "$file.cdx.json" | cut -d ' ' -f 1)" "${@:3}" "$container"
    b push --quiet "$(b commit --quiet --rm --identity-label=false --timestamp "$SOURCE_DATE_EPOCH" "$container")" \
      "oci:$layout:$architecture"
    manifest=$blobs/$(jq -r '.manifests[-1].digest[7:]' "$layout/index.json")
    config=$blobs/$(jq -r '.config.digest[7:]' "$manifest")
    # buildah writes no health check in this format. Docker reads it where its own builds write it.
    jq -c '.config.Healthcheck = {Test: ["CMD", "/usr/local/bin/reseq", "health"], Retries: 3,
      Interval: 10000000000, Timeout: 5000000000, StartPeriod: 120000000000}' "$config" | blob >"$work/config.json"
    jq -c '.config += input' "$manifest" "$work/config.json" >"$work/manifest.json"
    rm "$manifest" "$config"
    jq --arg name "$2" --arg architecture "$architecture" '
      {RepoTags: [if $architecture == "arm64" then "\($name)-arm64" else $name end],
      Config: "blobs/sha256/\(.config.digest[7:])", Layers: [.layers[] | "blobs/sha256/\(.digest[7:])"]}' \
      "$work/manifest.json" >>"$layout.docker"
    blob <"$work/manifest.json" | jq --arg architecture "$architecture" '. + {platform: {os: "linux", $architecture},
      mediaType: "application/vnd.oci.image.manifest.v1+json"}' >>"$layout.index"
  done
  # The index of the architectures. Docker without containerd reads manifest.json: there, aarch64 has its own name.
  local type='{mediaType: "application/vnd.oci.image.index.v1+json"}'
  jq -cs "{schemaVersion: 2} + $type + {manifests: .}" "$layout.index" | blob >"$work/index.json"
  jq -c --arg name "$2" "{schemaVersion: 2, manifests: [$type + . + {annotations: {
    \"io.containerd.image.name\": \"docker.io/library/\\(\$name)\",
    \"org.opencontainers.image.ref.name\": (\$name / \":\")[1]}}]}" "$work/index.json" >"$layout/index.json"
  jq -cs . "$layout.docker" >"$layout/manifest.json"
  "${tar[@]}" --owner=0 --group=0 --file "$file.tar" --directory "$layout" blobs index.json manifest.json oci-layout
  say "$file.tar: $2, $(($(stat --format %s "$file.tar") / 1000)) kB, $(jq -r .digest "$work/index.json")"
}

files amd64 x86_64
[ ! -f "$(programs aarch64)/reseq" ] || files arm64 aarch64
archive image "reseq:$VERSION"
"$(programs x86_64)/redis-server" --version |
  sed 's/^\(.*\) server v=\([^ ]*\).*/{"type": "application", "name": "\1", "version": "\2"}/' >>"$work/packages"
archive demo reseq:demo --cmd demo --volume /data --env RESEQ_CONFIG=/etc/reseq/reseq.toml
