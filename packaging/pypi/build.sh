#!/usr/bin/env bash
# Builds the wheels of reseq-server into $DIST/pypi, one for each architecture whose program exists.
set -euo pipefail
# shellcheck source=packaging/npm/programs.sh
. "$(dirname "$0")/../npm/programs.sh"
rm -rf "$DIST/pypi"; mkdir -p "$DIST/pypi"
for each in "${architectures[@]}"; do
  python3 "$ROOT/packaging/pypi/wheel.py" "$VERSION" "$each" "$(programs "$each")" "$ROOT/LICENSE" "$DIST/pypi"
done
