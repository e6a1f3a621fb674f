#!/usr/bin/env bash
# Builds the release programs for an old glibc, or static with musl, and packs them with a redis-server into a tarball.
#
#   packaging/binary/build.sh x86_64|aarch64|x86_64-musl|aarch64-musl
#
# Writes reseq, reseq-connect and their .debug (symbols and line tables) into $DIST/programs/BUILD, and
# $DIST/reseq-VERSION-ARCHITECTURE-linux[-musl].tar.gz with both in bin/, lib/reseq/bin/redis-server, man pages and
# completions. Where Rust is too old for the client of Kafka, reseq-connect is built without it, and a sentence says so.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/../lib.sh"
build=${1:-x86_64}
architecture=${build%-musl}
out=$(programs "$build")
case $build in
*-musl) libc=-musl target=$architecture-unknown-linux-musl floor='' ;;
*) libc='' target=$architecture-unknown-linux-gnu floor=.$GLIBC_FLOOR ;;
esac
"$ROOT/packaging/binary/tools.sh"
rustup target list --installed 2>/dev/null | grep -qx "$target" || rustup target add "$target" ||
  die "the Rust library for $target is missing: install it (rustup target add $target)"

say "building reseq and reseq-connect for $target$floor"
# Paths of this machine stay out of the program.
remap="--remap-path-prefix=$ROOT=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
build() {
  (cd "$ROOT" && PATH=$ZIG/bin:$PATH RESEQ_BUILD=$(scripts/version.sh) RUSTFLAGS=$remap \
    cargo zigbuild --profile dist --locked --target "$target$floor" "$@")
}
# One after the other: in one call, reseq would get the features that reseq-connect needs of crates that both use.
build --bin reseq
build --package reseq-connect --bin reseq-connect --features "reseq-connect/postgres $("$ROOT/scripts/kafka.sh" --feature)"
mkdir -p "$out"
for program in reseq reseq-connect; do
  cp "$("$ROOT/scripts/target-dir.sh")/$target/dist/$program" "$out/$program"
  "$ROOT/scripts/split-debug.sh" "$out/$program"
done
"$ROOT/packaging/binary/valkey.sh" "$architecture"

say "packing"
# The pages and completions are those of any architecture.
run=$(programs "$(uname -m)")/reseq
name=reseq-$VERSION-$architecture-linux$libc
server=$(programs "$architecture")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/$name
install -D -t "$root/bin" "$out"/reseq{,-connect}
install -D "$server/redis-server" "$root/lib/reseq/bin/redis-server"
install -D -m 644 "$server/LICENSE.valkey" "$root/share/doc/reseq/LICENSE.valkey"
install -m 644 "$ROOT"/{LICENSE,README.md,CHANGELOG.md,reseq.example.toml,reseq-connect.example.toml} "$root/share/doc/reseq"
mkdir -p "$root/share/man/man1" "$root/share/completions"
"$run" man "$root/share/man/man1" >/dev/null
for shell in bash zsh fish; do "$run" completions $shell >"$root/share/completions/reseq.$shell"; done
reproducible_tar --directory "$work" "$name" | gzip --best --no-name >"$DIST/$name.tar.gz"
say "$DIST/$name.tar.gz"
