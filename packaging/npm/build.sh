#!/usr/bin/env bash
# Builds the npm packages into $DIST/npm: reseq-server, and one package for each platform whose program exists.
set -euo pipefail
# shellcheck source=packaging/npm/programs.sh
. "$(dirname "$0")/programs.sh"
rm -rf "$DIST/npm"; mkdir -p "$DIST/npm"; cd "$DIST/npm"

# pack FILE: packs the folder `package`, with the package.json of standard input, and removes it.
pack() {
  cat >package/package.json
  reproducible_tar package | gzip -6n >"$1-$VERSION.tgz"
  rm -r package
  say "npm: $1-$VERSION.tgz, $(stat -c %s "$1-$VERSION.tgz") bytes"
}

platforms=
for each in "${architectures[@]}"; do
  case $each in x86_64) cpu=x64 ;; aarch64) cpu=arm64 ;; esac
  from=$(programs "$each") name=server-linux-$cpu
  install -D -m 755 -t package/bin "$from/reseq" "$from/redis-server"
  install -m 644 -t package "$ROOT/LICENSE" "$from/LICENSE.valkey"
  pack "reseq-$name" <<END
{ "name": "@reseq/$name", "version": "$VERSION", "license": "MIT AND BSD-3-Clause",
  "description": "The programs of reseq-server for Linux on $cpu. Install reseq-server instead",
  "os": ["linux"], "cpu": ["$cpu"], "libc": ["glibc"], "preferUnplugged": true }
END
  platforms+="${platforms:+, }\"@reseq/$name\": \"$VERSION\""
done

install -D -m 755 -t package/bin "$ROOT/packaging/npm/reseq.js"
install -m 644 -t package "$ROOT/LICENSE" "$ROOT/packaging/npm/README.md"
pack reseq-server <<END
{ "name": "reseq-server", "version": "$VERSION", "license": "MIT", "engines": { "node": ">=20" },
  "description": "The server of Reseq, with its Redis: process messages in parallel, deliver them in order",
  "bin": { "reseq": "bin/reseq.js", "reseq-server": "bin/reseq.js" },
  "optionalDependencies": { $platforms } }
END
