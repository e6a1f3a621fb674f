#!/usr/bin/env bash
# Checks that everything that names the version names the same one: Cargo, CHANGELOG, the client for Node.js, the chart,
# and what `reseq --version` says if the release is built.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
wrong=0
check() {
  if [ "$2" = "$VERSION" ]; then say "ok     $1: $2"; else say "wrong  $1: ${2:-none}, and Cargo.toml has $VERSION" && wrong=1; fi
}
# The dependencies on the crates of this workspace.
for each in $(sed -n 's/.*path = "crates\/.*version = "\([^"]*\)".*/\1/p' Cargo.toml | sort -u); do
  check "crates in Cargo.toml" "$each"
done
check "Cargo.lock" "$(sed -n '/^name = "reseq"$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)"
check "CHANGELOG.md" "$(sed -n 's/^## \[\([0-9][^]]*\)\].*/\1/p' CHANGELOG.md | head -n 1)"
for each in node nest; do
  check "clients/$each/package.json" "$(sed -n 's/^  "version": "\(.*\)",$/\1/p' clients/$each/package.json)"
done
check "packaging/chart" "$(sed -n 's/^version: \(.*\)$/\1/p' packaging/chart/reseq/Chart.yaml)"
check "docker-compose.yml" "$(sed -n 's/^  image: reseq:\(.*\)$/\1/p' docker-compose.yml)"
placeholders=$(grep -rl 'example\.invalid' Cargo.toml clients/n*/package.json clients/n*/README.md packaging/deb) || true
if [ -n "$placeholders" ]; then
  say "wrong  ${placeholders//$'\n'/, }: addresses are placeholders; set them to the site that hosts Reseq" && wrong=1
fi
program=$(programs "$(uname -m)")/reseq
if [ -x "$program" ]; then check "reseq --version" "$("$program" --version | cut -d ' ' -f 2)"; fi
[ $wrong -eq 0 ] || die "correct these, and then check again"
