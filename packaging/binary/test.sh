#!/usr/bin/env bash
# Unpacks the tarballs, and runs them with nothing else: an empty PATH, no Redis of the system. The one for arm64 runs in
# an emulator, with the C library of Debian. --quick: without the demo and without the emulator.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/../lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/empty"

# unpack BUILD: unpacks its tarball into $work/BUILD, and says how large the program is.
unpack() {
  mkdir "$work/$1"
  tar --extract --file "$DIST/reseq-$VERSION-$2.tar.gz" --directory "$work/$1" --strip-components 1
  bytes=$(stat -c %s "$work/$1/bin/reseq") newest=$(glibc_of "$work/$1/bin"/reseq{,-connect})
  [ "$bytes" -le $((25 * 1000 * 1000)) ] || say "$1: the program has $bytes bytes; at most 25,000,000 are wanted"
  [ "$(printf '%s\n' "$newest" "$GLIBC_FLOOR" | sort --version-sort | tail -n 1)" = "$GLIBC_FLOOR" ] ||
    die "$1: a program needs glibc $newest"
  say "$1: reseq-connect has $(stat -c %s "$work/$1/bin/reseq-connect") bytes"
}
# reseq BUILD ARGUMENT...: runs the program of a tarball. With exec=exec it replaces the shell, so that signals reach it.
reseq() {
  ${exec:-} env --ignore-environment PATH="$work/empty" HOME="$work" RESEQ_REDIS_URL="${redis:-embedded}" RESEQ_REDIS_DATA_DIR="$work/data" \
    "${emulator[@]}" "$work/$1/bin/${program:-reseq}" "${@:2}"
}
# connect BUILD: the second program starts, names a file that is missing, and accepts its example: 1 is what it finds.
connect() {
  local program=reseq-connect said
  said=$(reseq "$1" --version)
  [ "$said" = "reseq-connect $VERSION" ] || die "$1: reseq-connect --version says $said"
  said=$(reseq "$1" check --config /missing.toml 2>&1) && die "$1: reseq-connect accepts a missing file"
  [[ $said == *"/missing.toml cannot be read"* ]] || die "$1: reseq-connect says of a missing file: $said"
  said=$(reseq "$1" check --config "$work/$1/share/doc/reseq/reseq-connect.example.toml" 2>&1) || [ $? = 1 ] ||
    die "$1: reseq-connect refuses its example: $said"
}

emulator=()
for each in x86_64 x86_64-musl; do
  [[ $each != *-musl || -f $(programs $each)/reseq ]] || continue
  unpack "$each" "x86_64-linux${each#x86_64}"
  [ "$each" = x86_64 ] || [ -z "$newest" ] || die "$each: the program is not static"
  [[ $(reseq $each --version) == "reseq $VERSION ("* ]] || die "$each: --version says $(reseq $each --version)"
  [[ $(reseq $each check) == *"version Valkey ${VALKEY_VERSION%%+*}"* ]] ||
    die "$each: the server that comes along is not used: $(reseq $each check)"
  connect $each
  began=$(date +%s%N)
  for _ in 1 2 3 4 5; do reseq $each --version >/dev/null; done
  say "$each: --version in $((($(date +%s%N) - began) / 5000000)) ms; $bytes bytes; needs ${newest:+glibc }${newest:-no C library}"
  [ "${1:-}" != --quick ] || continue
  said=$(reseq $each demo | tail -n 1)
  [ "$said" = "Complete and in order: yes" ] || die "$each: the demo ended with: $said"
done
[ "${1:-}" != --quick ] && [ -f "$(programs aarch64)/reseq" ] || exit 0

command -v qemu-aarch64-static >/dev/null || apt-get -qq -y install qemu-user-static >/dev/null ||
  die "install qemu-user-static, then try again"
unpack aarch64 aarch64-linux
debian_files arm64 "$work/arm64" libc6 libgcc-s1 >/dev/null
emulator=("$(command -v qemu-aarch64-static)" -L "$work/arm64")
[[ $(reseq aarch64 --version) == "reseq $VERSION ("* ]] || die "aarch64: --version says $(reseq aarch64 --version)"
connect aarch64
# An emulator runs the server, too, and another the pod, because neither can start the other here.
"${emulator[0]}" "$work/aarch64/lib/reseq/bin/redis-server" --port 0 --unixsocket "$work/redis.sock" --dir "$work" >/dev/null &
server=$!
redis=unix://$work/redis.sock
port=$((20000 + RANDOM % 12000)) url=http://127.0.0.1:$port
cat >"$work/reseq.toml" <<END
http.listen = "127.0.0.1:$port"
destination = [{ name = "box", delivery = { kind = "pull" } }]
END
within() { for _ in $(seq "$1"); do "${@:2}" >/dev/null 2>&1 && return; sleep 1; done; "${@:2}"; }
within 60 test -S "$work/redis.sock"
exec=exec reseq aarch64 serve --config "$work/reseq.toml" >"$work/log" 2>&1 &
pod=$!
trap 'kill "$pod" "$server" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
within 120 curl -fsS "$url/readyz" || die "aarch64: the pod is not ready: $(tail -n 5 "$work/log")"
for number in {1..20}; do
  curl -fsS -o /dev/null --json "$number" "$url/v1/destinations/box/messages"
done
curl -fsS --json '{"max": 20, "wait_ms": 20000}' "$url/v1/destinations/box/consume" >"$work/answer"
diff <(seq 20) <(grep -o '"body":[0-9]*' "$work/answer" | tr -dc '0-9\n') >&2 || die "aarch64: not each message once, in order"
kill "$pod" && wait "$pod" || die "aarch64: the pod ended with $? after SIGTERM"
say "aarch64, in an emulator: 20 messages accepted and handed out in order; $bytes bytes; needs glibc $newest"
