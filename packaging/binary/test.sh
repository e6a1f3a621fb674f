#!/usr/bin/env bash
# Unpacks the tarball, and runs it with nothing else: an empty PATH, no Redis of the system. --quick: without the demo.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/../lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar --extract --file "$DIST/reseq-$VERSION-x86_64-linux.tar.gz" --directory "$work" --strip-components 1
mkdir "$work/empty"
reseq() { env --ignore-environment PATH="$work/empty" HOME="$work" RESEQ_REDIS_URL=embedded RESEQ_REDIS_DATA_DIR="$work/data" \
  "$work/bin/reseq" "$@"; }

[[ $(reseq --version) == "reseq $VERSION ("* ]] || die "--version says $(reseq --version)"
[[ $(reseq check) == *"version Valkey ${VALKEY_VERSION%%+*}"* ]] || die "the server that comes along is not used: $(reseq check)"
bytes=$(stat -c %s "$work/bin/reseq")
[ "$bytes" -le $((25 * 1000 * 1000)) ] || say "the program has $bytes bytes; at most 25,000,000 are wanted"
newest=$(glibc_of "$work/bin/reseq")
[ "$(printf '%s\n' "$newest" "$GLIBC_FLOOR" | sort --version-sort | tail -n 1)" = "$GLIBC_FLOOR" ] ||
  die "the program needs glibc $newest"
began=$(date +%s%N)
for _ in 1 2 3 4 5; do reseq --version >/dev/null; done
say "reseq --version: $((($(date +%s%N) - began) / 5000000)) ms; $bytes bytes; needs glibc $newest"
[ "${1:-}" = --quick ] && exit
said=$(reseq demo | tail -n 1)
[ "$said" = "Complete and in order: yes" ] || die "the demo ended with: $said"
