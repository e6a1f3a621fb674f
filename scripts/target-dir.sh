#!/usr/bin/env bash
# Prints the folder in which cargo puts what it builds, as cargo itself says: CARGO_TARGET_DIR, build.target-dir
# of its configuration, or target/ beside Cargo.toml.
#
#   scripts/target-dir.sh [FOLDER OF A CRATE]      (this project)
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# The end of the name is the first quote that is not escaped.
found=$(cargo metadata --format-version 1 --no-deps --offline |
  sed -En 's/.*"target_directory":"(([^"\\]|\\.)*)".*/\1/p' | sed -E 's/\\(.)/\1/g')
[ -n "$found" ] || {
  echo "target-dir: cargo metadata names no target_directory" >&2
  exit 1
}
printf '%s\n' "$found"
