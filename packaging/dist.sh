#!/usr/bin/env bash
# Builds all release artefacts that this machine can, and prints a table: artefact, size, time, SHA-256.
#
# Artefacts are in dist/ where cargo builds, logs in dist/logs/. Without changes in the source a second run builds
# nothing. BUILDS=x86_64 builds for one architecture alone. MINISIGN_KEY=FILE signs the list of checksums.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
builds=${BUILDS:-x86_64 aarch64 x86_64-musl}
logs=$DIST/logs
mkdir -p "$logs"

state=$({ echo "$builds"; git rev-parse HEAD; git diff HEAD; git ls-files --others --exclude-standard; } | sha256sum)
if [ "$(cat "$logs/state" 2>/dev/null)" != "$state" ]; then
  rm -f "$logs"/*
  # step NAME COMMAND...: runs a step, with its output in a log, and notes its time.
  step() {
    local name=$1 began=$SECONDS
    shift
    say "$name: begins"
    if "$@" >"$logs/$name.log" 2>&1; then
      echo $((SECONDS - began)) >"$logs/$name.seconds"
      say "$name: built in $((SECONDS - began)) s"
    else
      tail -n 15 "$logs/$name.log" >&2
      say "$name: failed; all of its output is in $logs/$name.log"
      return 1
    fi
  }
  for each in $builds; do step "binary-$each" packaging/binary/build.sh "$each"; done
  # Two at a time: each of them uses one core.
  (step sbom scripts/supply-chain.sh sbom && step image packaging/image/build.sh) &
  (step deb packaging/deb/build.sh && step npm packaging/npm/build.sh && step pypi packaging/pypi/build.sh &&
    step chart packaging/chart/build.sh) || { wait; exit 1; }
  wait $!
  for each in reseq reseq-connect; do cp "$DIST/../sbom/$each.cdx.json" "$DIST/$each-$VERSION.cdx.json"; done
  echo "$state" >"$logs/state"
fi

cd "$DIST"
mapfile -t files < <(find . -maxdepth 2 -type f \( -name '*.tar.gz' -o -name '*.tgz' -o -name '*.whl' -o -name '*.deb' \
  -o -name '*.rpm' -o -name '*.tar' -o -name '*.cdx.json' \) -printf '%P\n' | sort)
sha256sum "${files[@]}" >SHA256SUMS
if [ -n "${MINISIGN_KEY:-}" ]; then
  command -v minisign >/dev/null || die "minisign is missing: apt-get install minisign"
  minisign -Sm SHA256SUMS -s "$MINISIGN_KEY" -t "reseq $VERSION" >/dev/null
else
  say "SHA256SUMS is not signed: set MINISIGN_KEY to the file of the secret key"
fi

# time_of FILE: the seconds of the step that built it.
time_of() {
  local name
  case $1 in
  npm/*) name=npm ;; pypi/*) name=pypi ;; *.deb | *.rpm) name=deb ;; *image* | *demo*) name=image ;;
  *.cdx.json) name=sbom ;; *x86_64-linux-musl*) name=binary-x86_64-musl ;; *x86_64-linux*) name=binary-x86_64 ;; *aarch64-linux*) name=binary-aarch64 ;; *) name=chart ;;
  esac
  cat "logs/$name.seconds" 2>/dev/null || echo '?'
}
printf '%-58s %10s %7s  %s\n' artefact bytes seconds sha256
while read -r sum file; do
  printf '%-58s %10s %7s  %s\n' "$file" "$(stat -c %s "$file")" "$(time_of "$file")" "$sum"
done <SHA256SUMS
