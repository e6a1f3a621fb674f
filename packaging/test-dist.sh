#!/usr/bin/env bash
# Installs the packages of `make dist` as strangers would, on systems without Rust and Redis, and runs them.
#
#   packaging/test-dist.sh [--quick]      --quick: what takes less than two minutes
set -uo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/lib.sh"
[ -x "$(programs x86_64)/reseq" ] || die "there are no packages: run make dist first"
failed=()
for each in binary deb npm pypi image chart; do
  began=$SECONDS
  if "$ROOT/packaging/$each/test.sh" "$@"; then
    say "$each: passed in $((SECONDS - began)) s"
  else
    failed+=("$each")
  fi
done
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}"
say "all passed in $SECONDS s"
