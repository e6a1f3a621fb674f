#!/usr/bin/env bash
# Builds the static redis-server that comes along: Valkey, from Debian's source package, linked with musl by zig.
#
#   packaging/binary/valkey.sh x86_64|aarch64
#
# Writes redis-server and LICENSE.valkey into $DIST/programs/ARCHITECTURE.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/../lib.sh"
architecture=${1:-x86_64}
out=$(programs "$architecture")
mark="$VALKEY_VERSION $ZIG_VERSION"
[ "$(cat "$out/.valkey" 2>/dev/null)" = "$mark" ] && exit
"$ROOT/packaging/binary/tools.sh"

source=$TOOLS/valkey-$VALKEY_VERSION.tar.xz
fetch "${DEBIAN_MIRROR:-http://deb.debian.org/debian}/pool/main/v/valkey/valkey_$VALKEY_VERSION.orig.tar.xz" \
  "$VALKEY_SHA256" "$source"

say "building Valkey $VALKEY_VERSION for $architecture"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar --extract --file "$source" --directory "$work" --strip-components 1
# zig has no table of the processor's features, so the code for AVX2 (HyperLogLog, which Reseq does not use) is left out.
printf '#!/bin/sh\nexec %q -m ziglang cc -target %s-linux-musl "-D__builtin_cpu_supports(name)=0" "$@"\n' \
  "$ZIG/bin/python" "$architecture" >"$work/cc"
printf '#!/bin/sh\nexec %q -m ziglang ar "$@"\n' "$ZIG/bin/python" >"$work/ar"
printf '#!/bin/sh\nexec %q -m ziglang ranlib "$@"\n' "$ZIG/bin/python" >"$work/ranlib"
chmod 755 "$work"/{cc,ar,ranlib}
# The version names no build host and no time of build.
make -C "$work/src" -j2 valkey-server CC="$work/cc" AR="$work/ar" RANLIB="$work/ranlib" MALLOC=jemalloc USE_SYSTEMD=no BUILD_TLS=no \
  OPTIMIZATION=-O2 DEBUG= CFLAGS=-fno-sanitize=all LDFLAGS="-static -s" JEMALLOC_CONFIGURE_OPTS="--host=$architecture-linux-musl" \
  SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "Valkey cannot be built"; }
mkdir -p "$out"
install "$work/src/valkey-server" "$out/redis-server"
install -m 644 "$work/COPYING" "$out/LICENSE.valkey"
echo "$mark" >"$out/.valkey"
